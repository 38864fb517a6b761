/* SPDX-License-Identifier: BSD-3-Clause */
/* How many CPUs the calling thread may use. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The CPUs in this thread's affinity, which a cpuset limits, too. At least 1. */
unsigned cpus_in_affinity(void);
/* Whether a control group limits the CPU time of this process (cgroup v2 or v1). */
bool cpus_have_quota(void);
/* How many threads of this process can run at once: the CPUs in its affinity, or as many as its
 * quota pays for, rounded up. At least 1. */
unsigned cpus_usable(void);

/* How much of the CPUs in its affinity stood idle, from one look of its owner to the next. */
struct cpus_idle {
	uint64_t looked_ns; /* 0: never */
	uint64_t idle_ns;   /* of all those CPUs, since the machine started */
};

/* Thousandths of a CPU, mean since the last look; 0 at the first look, and without /proc/stat. */
unsigned cpus_idle_look(struct cpus_idle *idle, uint64_t now_ns);
