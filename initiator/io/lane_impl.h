/* SPDX-License-Identifier: BSD-3-Clause */
/* A lane from inside, for the files that share it: see lane.h. */
#pragma once

#include "base/capture.h"
#include "initiator/io/auth.h"
#include "initiator/io/command.h"
#include "initiator/io/lane_cq.h"
#include "initiator/io/lane_limits.h"
#include "initiator/io/slab.h"
#include "transport/qp.h"

struct lane;
struct connection;
struct path;
struct volume_queue;

/* The states on the I/O loop's side; the rules of moves: lane_watch.c. */
enum lane_state {
	LANE_DETACHED,
	LANE_STARTING, /* Connect and authentication */
	LANE_LIVE,
	LANE_FAILED, /* sends nothing and discards answers, until it is drained */
};

/* How well a path serves the namespace now: ANA. The best of those that are live are used. */
enum lane_rank {
	LANE_RANK_NONE, /* its target refuses I/O for now */
	LANE_RANK_LAST, /* it is about to be removed */
	LANE_RANK_POOR, /* non-optimized */
	LANE_RANK_BEST, /* optimized, or there is no ANA */
};

/* Authentication is over, or was not required. status: NVME_OK, or why the queue is of no use. */
typedef void lane_auth_over(struct lane *lane, enum nvme_status status);

/* SENDING <---> RECEIVING, from and to IDLE. */
enum lane_auth_state {
	LANE_AUTH_IDLE,	     /* not begun, or over */
	LANE_AUTH_SENDING,   /* a message of ours is on its way: Authentication Send */
	LANE_AUTH_RECEIVING, /* the target was asked for one: Authentication Receive */
};

/* Authentication of the queue: lane_auth.c. Control makes and unmakes it, like cq and qp. */
struct lane_auth {
	struct auth_keys *keys; /* owned: auth_alloc; NULL: none are configured */
	struct auth_host *host; /* owned: auth_alloc */
	uint8_t *memory;	/* owned mapping: the message on its way */
	struct mr mr;
	lane_auth_over *on_over;
	enum lane_auth_state state;
	enum auth_host_failure failure; /* with connect_status */
	enum nvmf_auth_failure explanation;
};

enum {
	CHOOSE_SIZES = 2, /* commands with little data, and with much */
};

/* How long the commands of a lane take: choose.c. */
struct lane_pace {
	uint64_t ns[CHOOSE_SIZES]; /* moving average; 0: not known */
	uint64_t noted_ns;	   /* loop's time of the last command that was noted */
};

struct lane {
	/* Thread: control */
	struct path *path;	       /* borrowed: outlives its lanes */
	struct connection *connection; /* owned: control's side */

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
