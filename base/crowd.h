/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether other threads want the CPUs that a loop may use: a crowd. The owner is a loop, which
 * looks while it polls (patience.h has the policy). There are three signs, all means over looks at
 * proc(5), in thousandths:
 *
 *   full    the share of looks with as many runnable threads as CPUs, or more (loadavg).
 *   excess  the share of looks with more.
 *   waits   the share of time for which the thread was runnable without a CPU (schedstat).
 *
 * The first two see all CPUs of the machine, so they count where the loop may use all of them. The
 * third counts where the loop may use fewer: by affinity, by a cpuset, by a quota. Elsewhere a wait
 * says only that the scheduler has put two threads on one CPU, beside a free one.
 *
 * Threads wait if excess is above one half: more often than not a thread waits for a CPU. Or if
 * waits are above a quarter: one other thread that always wants the CPU of this one causes a half.
 * No CPU is idle if full is above one half.
 *
 * A look counts only while the thread polls. Once the threads of a crowd sleep, none waits. And
 * waits count only between two looks without a sleep: each wake-up is a short wait, too. Without
 * /proc there is never a crowd.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	CROWD_BUSY = 500,    /* of full */
	CROWD_EXCESS = 500,  /* of excess */
	CROWD_WAITING = 250, /* of waits */
	/* A look is 1/64 of a mean. A loop, its client and its peer wake each other before they
	 * sleep: a few looks in a row see them all, and they are no crowd. */
	CROWD_WEIGHT = 64,
};

enum crowd_verdict {
	CROWD_NONE,
	CROWD_FULL,  /* no CPU is idle while the loop polls */
	CROWD_WAITS, /* threads wait for a CPU while it polls */
};

struct crowd {
	/* Thread: the owner's */
	int loadavg_fd, schedstat_fd;  /* owned; -1: cannot be opened */
	unsigned n_online;	       /* CPUs of the machine */
	bool has_quota;		       /* a control group limits the CPU time */
	bool has_looked;	       /* looked_ns, waited_ns are set; false after a sleep */
	uint64_t looked_ns, waited_ns; /* at the last look */
	unsigned waits, excess, full;  /* the signs */
};

/* Any thread, before the owner looks. Never fails: without /proc there is no crowd. */
void crowd_init(struct crowd *crowd);
/* Accepts a crowd that could not open its files, and one that was closed before. */
void crowd_deinit(struct crowd *crowd);
/* Owner's thread, while it polls: looks once, by system calls of some microseconds. The owner
 * calls this a few hundred times a second at most. After a verdict the owner may sleep for a
 * while, and a few further looks then decide whether the crowd is still there. */
enum crowd_verdict crowd_look(struct crowd *crowd, uint64_t now_ns);
/* The same, for a loop that may use n_usable CPUs of the machine. */
enum crowd_verdict crowd_look_on(struct crowd *crowd, uint64_t now_ns, unsigned n_usable);

/* Owner's thread, before it sleeps. The first call opens schedstat, which is the thread's own: a
 * loop has all its descriptors once it has slept. */
void crowd_sleeps(struct crowd *crowd);
