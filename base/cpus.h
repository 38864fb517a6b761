/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <sched.h>

/* CPUs that this thread may run on, which may be fewer than the machine has. */
static inline unsigned cpus_usable(void)
{
	cpu_set_t set;

	/* Fails on machines with more CPUs than the set holds: enough of them. */
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return CPU_SETSIZE;
	return (unsigned)CPU_COUNT(&set);
}
