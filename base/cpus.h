/* SPDX-License-Identifier: BSD-3-Clause */
/* How many CPUs the calling thread has. On one CPU no loop polls. */
#pragma once

#include <sched.h>

/* The CPUs in this thread's affinity, which may be fewer than the machine has. */
static inline unsigned cpus_usable(void)
{
	cpu_set_t set;

	/* Fails on a machine with more CPUs than the set holds: then there are enough. */
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return CPU_SETSIZE;
	return (unsigned)CPU_COUNT(&set);
}
