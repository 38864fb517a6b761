/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume's queue from inside, for the files that share it: see queue.h. */
#pragma once

#include "base/capture.h"
#include "initiator/io/io_stats.h"
#include "initiator/io/lane_impl.h"
#include "initiator/io/policy.h"
#include "initiator/io/unflushed.h"
#include "initiator/io/unproven.h"

struct volume;
struct volume_io_errors;

enum queue_mode {
	QUEUE_HOLD, /* I/O that cannot be sent now waits */
	QUEUE_FAIL, /* it fails with -EIO */
};

/* On which lanes the I/O of a queue may go: choose.c. */
struct lane_choice {
	enum volume_policy policy;
	struct lane *attached[VOLUME_PATHS_MAX];
	struct lane *usable[VOLUME_PATHS_MAX]; /* those of the best rank that is live */
	unsigned n, n_usable, turn;
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
