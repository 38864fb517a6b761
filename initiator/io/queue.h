/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume's queue on an I/O loop: what one front end thread submits to. It holds the I/O that
 * cannot be sent, and has a lane for each path of the volume (lane.h), on which it sends the rest.
 *
 *     control                                  I/O loop
 *     what is to become of I/O  -- mode   -->  holds or fails it; looks at the paths' ranks
 *     earlier ones are over     -- proof  -->  what waited for that goes on
 *     no lane is attached       -- quit   -->  timers and calls of the queue are gone
 *                               <- quitted --
 */
#pragma once

#include "initiator/io/queue_impl.h"

/* The configuration of a new queue. */
struct queue_config {
	struct volume *volume;	     /* borrowed: outlives it */
	struct loop *control, *loop; /* borrowed */
	struct unflushed *unflushed;
	struct unproven *unproven;
	struct volume_io_errors *io_errors;
	struct capture *capture;
	uint16_t qid;
	enum volume_policy policy;
	size_t slab_bytes, max_io_bytes;
	bool is_slab_whole; /* registered at once, instead of as it is used */
	uint64_t retry_for_ns;
	unsigned block_shift;
	void (*on_quitted)(struct loop_msg *msg); /* control's */
	void (*on_resize)(struct loop_msg *msg);  /* control's: of its slab */
};

/* 0 or -ENOMEM. */
int queue_new(const struct queue_config *config, struct volume_queue **ret_queue);
void queue_free(struct volume_queue *queue); /* accepts a half-built one; without lanes */
void queue_set_mode(struct volume_queue *queue, enum queue_mode mode);
/* Sends I/O that waits for a retry now; looks at the ranks of the lanes. */
void queue_retry(struct volume_queue *queue);

/* Control: the volume's struct unproven has changed (queue.c). */
void queue_look_at_proof(struct volume_queue *queue);
