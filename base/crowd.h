/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether others want the CPUs on which a thread polls. Two signs: the scheduler takes its CPU away a few hundred
 * times a second (getrusage(2), ru_nivcsw), or more threads want to run than there are CPUs, now and then
 * (proc(5), /proc/loadavg), for who polls may have a CPU to itself while all others share the rest.
 * Where /proc is hidden, the first sign has to do.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct crowd {
	/* Thread: the owner's */
	int loadavg_fd; /* -1: not to be had */
	unsigned n_cpus;
	uint64_t looked_ns, n_switches; /* at the last look */
	unsigned
		excess; /* mean, in thousandths of looks: more wanted to run than could */
};

void crowd_init(struct crowd *crowd);
/* Accepts one that has failed to open anything. */
void crowd_deinit(struct crowd *crowd);
/* Looks, by system calls of some microseconds: a few hundred times a second at most. */
bool crowd_is_here(struct crowd *crowd, uint64_t now_ns);
