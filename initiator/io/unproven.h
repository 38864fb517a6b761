/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which associations of a volume may still write: each was lost, and nothing has proved yet that
 * its last command is over at the target (control/proof.h). Control writes, I/O loops read after
 * queue_look_at_proof. A serial is there before the queues of its association are told to stop.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

enum {
	UNPROVEN_MAX = 16,
};

/* The unproven associations of a volume; zeroed: none. */
struct unproven {
	/* Thread: control writes, any reads */
	_Atomic uint32_t serials[UNPROVEN_MAX]; /* of associations; 0: none */
	/* Writes without proof are known to no queue: they failed, or were another process's. No
	 * queue changes anything then. */
	_Atomic bool is_closed;
};

/* Changes of a queue that wait for proof (io_fencing.c). */
struct queue_fencing {
	struct unproven *unproven; /* borrowed: the volume's */
	struct loop_msg msg;	   /* control's: unproven has changed */
	_Atomic bool is_sent;	   /* msg is under way */
	_Atomic unsigned seen;	   /* n, for the status */

	/* Thread: I/O loop */
	struct list list; /* of volume_io.node, in order */
	unsigned n;
	bool is_closed; /* no change is sent */
};

struct volume_queue;

/* serial 0: of an I/O that was never sent. */
static inline bool unproven_has(const struct unproven *unproven, uint32_t serial)
{
	if (!serial)
		return false;
	for (unsigned i = 0; i < UNPROVEN_MAX; i++)
		if (atomic_load(&unproven->serials[i]) == serial)
			return true;
	return false;
}
