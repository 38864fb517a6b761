/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths that leave a volume of the library, and the Flush that a queue sends for them; see
 * departure.c. */
#pragma once

#include "initiator/control/volume.h"

struct rblk_queue;
struct rblk_volume;

/* A Flush that a queue has to send, or has sent. */
struct errand {
	/* Thread: control */
	bool is_out;
	uint64_t next_ns;			  /* after one that failed: not before */
	void (*remove)(struct rblk_queue *queue); /* when it is done; NULL: the queue stays */

	/* Taken */
	bool is_flushing, is_closing; /* flush is submitted; no further one is */
	int error;
	struct volume_io flush;

	struct loop_msg there, back; /* to the queue; to control */
};

void errand_init(struct errand *errand);
/* Control. True: the queue has an errand, and remove runs when that is done. */
bool errand_delays(struct errand *errand, void (*remove)(struct rblk_queue *queue));
/* The queue is taken, for good: a Flush is not waited for. */
void errand_cancel(struct rblk_queue *queue);

/* Control. Each path that leaves goes, if it can; the Flush that it needs is sent. */
void departure_look(struct rblk_volume *volume, const struct volume_status *status);
