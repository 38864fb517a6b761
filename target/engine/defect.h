/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When an invariant of one queue breaks. That is a mistake of ours, whatever its host has sent, and the
 * queue that shows it cannot be trusted any more; the others can. So what would stop the program
 * elsewhere ends this queue here: the step is not taken, the log says what was to happen and which
 * capsules came last, and the queue dies as any other.
 *
 * Nothing of a command that has lost its way is used again before it comes back: the device or the disk may
 * have it. If that does not happen within DEFECT_WAIT_S the queue is stranded: its
 * memory stays until rblkd ends, its host may connect again (fence.h), and rblkd does not wait for it
 * when it stops.
 *
 * check() is left for what could corrupt the memory of all (base/check.h).
 */
#pragma once

#include <stdbool.h>

#include "base/loop.h"

enum {
	DEFECT_WAIT_S = 10,
};

struct queue;
struct target;

struct defect {
	/* Thread: poller, until it sends told */
	bool is_told;
	char what[128];
	struct loop_msg told;
	/* Thread: control */
	bool is_stranded;
};

/* Poller of the queue. Serves nothing any more and ends it; what has happened so far goes on. */
__attribute__((format(printf, 2, 3), cold)) void queue_break(struct queue *queue, const char *fmt,
							     ...);
/* Control. The same. what is a constant. */
__attribute__((cold)) void queue_break_at_control(struct queue *queue, const char *what);
/* Control. It is freed after all, or as any other. */
void defect_forget(struct queue *queue);
/* Control. Whether those that are left will never go. */
bool defect_has_all_stranded(const struct target *target);
