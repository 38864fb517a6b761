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

#include "base/capture.h"
#include "initiator/io/choose.h"
#include "initiator/io/io_stats.h"
#include "initiator/io/lane.h"
#include "initiator/io/policy.h"
#include "initiator/io/unflushed.h"
#include "initiator/io/unproven.h"

struct volume;
struct volume_io_errors;

enum queue_mode {
	QUEUE_HOLD, /* I/O that cannot be sent now waits */
	QUEUE_FAIL, /* it fails with -EIO */
};

struct volume_queue {
	/* Thread: control */
	struct volume *volume;		      /* borrowed: outlives its queues */
	struct list node;		      /* in volume->queues */
	struct lane *lanes[VOLUME_PATHS_MAX]; /* owned: by the path's index; NULL: no such path */
	uint16_t qid;
	bool is_removing;
	void (*on_removed)(void *context);
	void *on_removed_context;

	/* messages, each the receiver's until it is run */
	struct loop_msg quit_msg, mode_msg, quitted_msg;

	/* shared: the wanted mode, and whether mode_msg is under way */
	_Atomic unsigned wanted_mode;
	_Atomic bool is_mode_sent;
	/* figures for the status, written by I/O */
	_Atomic unsigned seen_held;
	struct queue_io_stats stats;

	/* Thread: I/O loop */
	struct loop *loop;		    /* borrowed */
	struct loop *control;		    /* borrowed; only to send to */
	struct unflushed *unflushed;	    /* borrowed: the volume's */
	struct volume_io_errors *io_errors; /* borrowed: the volume's */
	struct capture *capture;	    /* borrowed: the front end's */
	struct slab slab;
	struct lane *lane; /* the next I/O goes there; never NULL: choose.c */
	struct lane_choice choice;
	struct list held;     /* volume_io.node: to be sent, in order */
	struct list waiting;  /* volume_io.node: to be sent again when retry_timer fires */
	struct list finished; /* volume_io.node: finish_call will call done */
	struct queue_fencing fencing;
	unsigned n_held;
	void (*before_held)(void *context); /* volume_io_set_before_held; or NULL */
	void *before_held_context;
	enum queue_mode mode;
	struct loop_call finish_call;
	struct loop_timer retry_timer;
	uint64_t retry_for_ns; /* how long lost paths are retried: ctrl_loss_tmo */
	unsigned block_shift;
};

/* Of a new queue. */
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
