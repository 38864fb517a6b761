/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether others want the CPUs on which a thread polls. Two signs, both means of looks at proc(5):
 *
 *   schedstat   the share of the time for which the thread wanted a CPU and had none: others had it;
 *   loadavg     how often more threads want to run than there are CPUs, for who polls may have a CPU
 *               to itself while all others share the rest.
 *
 * What the kernel does for our own I/O in threads of its own shows in both (writes to a file at depth 32: up to
 * 150 and 500 of 1000) and is no crowd; one thread too many that polls brings 280 to 440 or 600 to 990.
 * Where /proc is hidden nobody is seen.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct crowd {
	/* Thread: the owner's */
	int loadavg_fd, schedstat_fd; /* -1: not to be had */
	unsigned n_cpus;
	bool has_looked;	       /* since it began, or since it has seen a crowd */
	uint64_t looked_ns, waited_ns; /* at the last look */
	unsigned waits, excess;	       /* the signs, in thousandths */
};

/* Any thread, before the owner looks. */
void crowd_init(struct crowd *crowd);
/* Accepts one that has failed to open anything. */
void crowd_deinit(struct crowd *crowd);
/* The owner's thread, while it polls: looks, by system calls of some microseconds, a few hundred times a
 * second at most. Who is told of a crowd sleeps for a while and then looks again: a few looks will do. */
bool crowd_is_here(struct crowd *crowd, uint64_t now_ns);
