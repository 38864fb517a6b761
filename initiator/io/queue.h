/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An I/O queue. It has two sides, which exchange loop messages only:
 *
 *   control loop (link.c): resolves, makes completion queue, queue pair and
 *       registrations, connects, takes them apart again; decides when.
 *   I/O loop (the other files here): sends commands, takes answers, holds what cannot be sent.
 *
 *     control                                  I/O loop
 *     resolve, make cq and qp   -- attach -->  polls the cq, posts receives
 *                               <- attached -
 *     connect (CM)              -- start  -->  sends the Connect command
 *                               <- connected-  live: sends what was held
 *                               <-- failed --  (first error, once per attach)
 *     disconnect                -- stop   -->  drains; commands in flight are held again
 *                               <- stopped --
 *     unmake; maybe again from the top
 *                               -- quit   -->  timers and calls of the queue are gone
 *                               <- quitted --
 *
 * Objects that control made, and limits, belong to the I/O loop from attach to stopped.
 */
#pragma once

#include "base/capture.h"
#include "initiator/io/command.h"
#include "initiator/io/io_stats.h"
#include "initiator/io/queue_auth.h"
#include "initiator/io/queue_cq.h"
#include "initiator/io/queue_limits.h"
#include "initiator/io/slab.h"
#include "initiator/io/unflushed.h"
#include "initiator/io/unproven.h"
#include "transport/qp.h"

struct link;
struct volume;
struct volume_io_errors;

enum queue_mode {
	QUEUE_HOLD, /* I/O that cannot be sent now waits */
	QUEUE_FAIL, /* it fails with -EIO */
};

/* Of the I/O loop's side; the rules of moves: queue_watch.c. */
enum host_queue_state {
	HOST_QUEUE_DETACHED,
	HOST_QUEUE_STARTING, /* Connect and authentication */
	HOST_QUEUE_LIVE,
	HOST_QUEUE_FAILED, /* sends nothing and discards answers, until it is drained */
};

struct volume_queue {
	/* Thread: control */
	struct volume *volume; /* borrowed: outlives its queues */
	struct list node;      /* in volume->queues */
	struct link *link;     /* control's side */
	bool is_removing;
	void (*on_removed)(void *context);
	void *on_removed_context;

	/* made by control, the I/O loop's between attach and stopped */
	struct queue_cq *cq; /* of the volume's queues on the loop */
	struct qp qp;
	struct queue_limits limits;
	struct queue_auth auth;

	/* messages, each the receiver's until it is run; results travel with them */
	struct loop_msg attach_msg, start_msg, stop_msg, quit_msg, mode_msg;
	struct loop_msg attached_msg, connected_msg, failed_msg, stopped_msg, quitted_msg;
	int attach_result;
	enum nvme_status connect_status;
	uint64_t connect_result;
	char fail_reason[160];

	/* shared: the wanted mode, and whether mode_msg is under way */
	_Atomic unsigned wanted_mode;
	_Atomic bool is_mode_sent;
	/* figures for the status, written by I/O */
	_Atomic unsigned seen_held, seen_in_flight;
	_Atomic uint64_t n_invalidated, n_revoked; /* keys: by the target, by us */
	struct queue_io_stats stats;
	struct unflushed_mark unflushed_mark;

	/* Thread: I/O loop */
	struct loop *loop;		    /* borrowed */
	struct loop *control;		    /* borrowed; only to send to */
	struct unflushed *unflushed;	    /* borrowed: the volume's */
	struct volume_io_errors *io_errors; /* borrowed: the volume's */
	struct capture *capture;	    /* borrowed: the front end's */
	struct capture_stream stream;	    /* control sets it before `start` */
	struct slab slab;
	struct command_table table;
	struct list held;     /* volume_io.node: to be sent, in order */
	struct list waiting;  /* volume_io.node: to be sent again when retry_timer fires */
	struct list finished; /* volume_io.node: finish_call will call done */
	struct queue_fencing fencing;
	unsigned n_held, n_obstacles;	    /* n_obstacles: to a new I/O: held, fencing, closed */
	void (*before_held)(void *context); /* volume_io_set_before_held; or NULL */
	void *before_held_context;
	enum queue_mode mode;
	unsigned state; /* enum host_queue_state */
	struct loop_call finish_call;
	struct loop_awaited awaited; /* commands in flight */
	struct loop_timer io_timer;  /* runs while commands are in flight */
	struct loop_timer retry_timer;
	uint64_t io_timeout_ns;
	uint32_t n_answered_before; /* when io_timer looked last */
	bool is_watched; /* keep alive would detect within io_timeout that the target is dead */
	bool has_told_slow;
	uint64_t retry_for_ns; /* how long lost paths are retried: ctrl_loss_tmo */
};

/* ---- queue.c: control's calls ---- */
/* 0 or -ENOMEM. */
int queue_new(const struct queue_config *config, struct volume_queue **ret_queue);
void queue_free(struct volume_queue *queue); /* accepts a half-built one */
void queue_set_mode(struct volume_queue *queue, enum queue_mode mode);
/* Sends I/O that waits for a retry now. */
void queue_retry(struct volume_queue *queue);

/* ---- queue_watch.c: I/O loop ---- */
/* Checks the move against the table. */
void host_queue_move(struct volume_queue *queue, enum host_queue_state next);
/* The association cannot be trusted any more: notifies control, once, and sends nothing further. */
__attribute__((format(printf, 2, 3))) void host_queue_fail(struct volume_queue *queue,
							   const char *fmt, ...);
/* A command was started: from now on its answer is due. */
void queue_watch_timeout(struct volume_queue *queue);
/* io_timer has expired. */
void queue_on_timeout(struct loop_timer *timer);

/* ---- io.c: I/O loop ---- */
/* Sends held I/O, as far as there is room. */
void io_pump(struct volume_queue *queue);
/* I/O that was held for long is about to be sent: the front end may still cancel it. */
void io_before_held(struct volume_queue *queue);
/* Answered; the I/O is done when the device is done with the buffer and the target with its key. */
void io_complete_when_idle(struct volume_queue *queue, struct command *command);
/* The answer to a command that lent a key: invalidates the key if the target has not. Before
 * io_complete_when_idle. */
void io_take_key_back(struct volume_queue *queue, struct command *command, bool is_invalidated);
/* The queue pair is dead: the I/O is held again, before all others, waits for proof, or ends. */
void io_hold_again(struct volume_queue *queue, struct volume_io *io);
/* Mode QUEUE_FAIL: all held I/O fails. */
void io_fail_held(struct volume_queue *queue);
void io_on_finish(struct loop_call *call);
void io_on_retry(struct loop_timer *timer);
void io_retry_now(struct volume_queue *queue);
