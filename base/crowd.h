/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether other threads want the CPUs on which a thread polls: a crowd. The owner is a loop, which
 * looks while it polls (patience.h has the policy). There are two signs, both means over looks at
 * proc(5), in thousandths:
 *
 *   waits   the share of time for which the thread was runnable without a CPU (schedstat);
 *   excess  the share of looks with more runnable threads than CPUs (loadavg). This one covers the
 *           thread that has a CPU to itself while all others share the rest.
 *
 * Kernel threads that work on our own I/O raise both (writes to a file at depth 32: waits up to
 * 150, excess up to 500) and are no crowd. One polling thread too many brings waits of 280 to 440,
 * or excess of 600 to 990. polling.h has the thresholds and the measurements between which they
 * lie.
 *
 * A look counts only while the thread polls: once the threads sleep, the figures of a disk and of
 * a crowd overlap (excess 200 to 830, and 165 to 990). Without /proc there is never a crowd.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct crowd {
	/* Thread: the owner's */
	int loadavg_fd, schedstat_fd; /* owned; -1: cannot be opened */
	unsigned n_cpus;
	bool has_looked;	       /* looked_ns, waited_ns are set; false after a verdict */
	uint64_t looked_ns, waited_ns; /* at the last look */
	unsigned waits, excess;	       /* the signs */
};

/* Any thread, before the owner looks. Never fails: without /proc there is no crowd. */
void crowd_init(struct crowd *crowd);
/* Accepts a crowd that could not open its files, and one that was closed before. */
void crowd_deinit(struct crowd *crowd);
/* Owner's thread, while it polls: looks once, by system calls of some microseconds. The owner
 * calls this a few hundred times a second at most. After a true result the owner sleeps for a
 * while, and a few further looks then decide whether the crowd is still there. */
bool crowd_is_here(struct crowd *crowd, uint64_t now_ns);
