/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane: the I/O queue of one path, as one of the ways that the I/O of a volume's queue may take.
 * It has two sides, which exchange loop messages only:
 *
 *   control loop (link.c): resolves, makes completion queue, queue pair and
 *       registrations, connects, takes them apart again; decides when.
 *   I/O loop (lane.c, lane_watch.c, lane_auth.c): sends commands, takes answers.
 *     control                                  I/O loop
 *     resolve, make cq and qp   -- attach -->  polls the cq, posts receives
 *                               <- attached -
 *     connect (CM)              -- start  -->  sends the Connect command
 *                               <- connected-  live: the queue may send I/O on it
 *                               <-- failed --  (first error, once per attach)
 *     disconnect                -- stop   -->  drains; I/O in flight is the queue's again
 *                               <- stopped --
 *     unmake; maybe again from the top
 *
 * Objects that control made, and limits, belong to the I/O loop from attach to stopped. Outside of
 * that the I/O loop does not know the lane, and control may free it.
 */
#pragma once

#include "base/capture.h"
#include "initiator/io/choose.h"
#include "initiator/io/command.h"
#include "initiator/io/lane_auth.h"
#include "initiator/io/lane_cq.h"
#include "initiator/io/lane_limits.h"
#include "initiator/io/slab.h"
#include "transport/qp.h"

struct link;
struct path;
struct volume_queue;

/* Of the I/O loop's side; the rules of moves: lane_watch.c. */
enum lane_state {
	LANE_DETACHED,
	LANE_STARTING, /* Connect and authentication */
	LANE_LIVE,
	LANE_FAILED, /* sends nothing and discards answers, until it is drained */
};

/* How well a path serves the namespace now: ANA. Of those that are live the best are used. */
enum lane_rank {
	LANE_RANK_NONE, /* its target refuses I/O for now */
	LANE_RANK_LAST, /* it is about to be removed */
	LANE_RANK_POOR, /* non-optimized */
	LANE_RANK_BEST, /* optimized, or there is no ANA */
};

struct lane {
	/* Thread: control */
	struct path *path; /* borrowed: outlives its lanes */
	struct link *link; /* owned: control's side */

	/* made by control, the I/O loop's between attach and stopped */
	struct lane_cq *cq; /* of the path's lanes on the loop */
	struct qp qp;
	struct lane_limits limits;
	struct lane_auth auth;
	struct capture_stream stream; /* control sets it before `start` */
	struct slab_keys keys; /* of the queue's slab, for this path; control's: see slab.h */

	/* messages, each the receiver's until it is run; results travel with them */
	struct loop_msg attach_msg, start_msg, stop_msg;
	struct loop_msg attached_msg, connected_msg, failed_msg, stopped_msg;
	int attach_result;
	unsigned n_taken_back; /* commands in flight when it was drained */
	enum nvme_status connect_status;
	uint64_t connect_result;
	char fail_reason[160];

	_Atomic unsigned wanted_rank; /* enum lane_rank; by control, which then sends mode_msg */
	/* figures for the status, written by I/O */
	_Atomic unsigned seen_in_flight, seen_rank; /* the rank that I/O goes by */
	_Atomic uint64_t seen_pace_ns;
	_Atomic uint64_t n_invalidated, n_revoked; /* keys: by the target, by us */

	/* Thread: I/O loop */
	struct volume_queue *queue; /* borrowed */
	struct command_table table;
	enum lane_state state;
	enum lane_rank rank;
	bool is_shunned; /* its path refused I/O just now */
	struct lane_pace pace;
	struct loop_awaited awaited; /* commands in flight */
	struct loop_timer io_timer;  /* runs while commands are in flight */
	uint64_t io_timeout_ns;
	uint64_t n_answered_before; /* when io_timer looked last */
	bool is_watched; /* keep alive would detect within io_timeout that the target is dead */
	bool has_told_slow;
};

struct lane_config {
	struct path *path;
	struct volume_queue *queue;
	unsigned n_entries; /* of the submission queue */
	uint64_t io_timeout_ns;
	bool is_watched;
	/* control's handlers of the lane's messages */
	void (*on_attached)(struct loop_msg *msg), (*on_connected)(struct loop_msg *msg);
	void (*on_failed)(struct loop_msg *msg), (*on_stopped)(struct loop_msg *msg);
};

/* 0 or -ENOMEM. The caller adds the link. */
int lane_new(const struct lane_config *config, struct lane **ret_lane);
/* It is detached. Accepts NULL, and one that is half built. */
void lane_free(struct lane *lane);
