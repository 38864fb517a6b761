/* SPDX-License-Identifier: BSD-3-Clause */
/* One command, from its capsule to its response; request_run.c has a drawing. Thread: the queue's
 * poller. Requests belong to their queue and are reused. */
#pragma once

#include "target/store/whole.h"
#include "target/export/guard/guard.h"
#include "target/engine/queue/queue.h"
#include "target/engine/record/request_state.h"
#include "target/engine/record/timing.h"
#include "transport/capsule.h"
#include "transport/qp.h"

struct nvme_command;

/* As the host sees it (the low bits of NVMe opcodes). */
enum direction {
	DIRECTION_NONE,
	DIRECTION_H2C, /* host to controller: we RDMA READ, or it came in the capsule */
	DIRECTION_C2H, /* controller to host: we RDMA WRITE */
};

/* The part of a command in turns at the guard of its namespace. */
enum request_turns {
	TURN_NONE,   /* it enters */
	TURN_WANTED, /* it takes a turn instead */
	TURN_GIVEN,  /* it has, or had, its turn: it cannot be aborted */
};

struct request {
	/* Thread: poller */
	struct queue *queue;
	struct list wait; /* in the FIFO that the state names */
	struct request *next_free;
	struct fair_entry turn; /* of requests that are throttled or wait for a buffer */
	struct nvme_sqe sqe;	/* a copy, so that the receive goes back at once */
	const struct nvme_command *command; /* its entry: parse.c finds it */
	struct line *line;		    /* while it is throttled */
	struct sgl_data sgl;
	enum request_state state;
	uint32_t received; /* bytes of the capsule */
	struct recv *recv; /* retained only for its in-capsule data */
	unsigned *kept;	   /* counter of its host that it is charged to (receives.h) */
	struct timing timing;
	struct capsule *capsule; /* its record in the queue's ring */

	/* Zero for each new command, from here to is_fresh (request_run.c, clear). The booleans are
	 * facts of the command, independent of its state and of each other. */
	uint64_t result;				  /* dwords 0 and 1 of the response */
	void *data;					  /* where the data is */
	enum request_state (*execute)(struct request *r); /* returns the next state */
	/* goes on after the turn, or ends the command; NULL: it is done */
	void (*after_turn)(struct request *r);
	uint64_t held_ns; /* by rates; during that: since when */
	uint64_t n_moved; /* bytes of completed pieces */
	whole_hold hold;  /* of blocks in memory that the device reads */
	enum nvme_status status;
	enum nvme_status abort_status; /* not NVME_OK: it must not start any more */
	enum direction direction;
	uint32_t length;     /* bytes to move; at most what the SGL offers */
	uint32_t n_buffer;   /* bytes of buffer to take; 0: length */
	unsigned n_paid;     /* steps of throttle.c that it has paid */
	uint32_t n_chunk;    /* Compare, Verify, Copy: bytes of a piece; 0: all */
	bool is_direct;	     /* from or to namespace memory, no buffer */
	unsigned turns;	     /* enum request_turns */
	bool has_first_data; /* fused, second: the first's data has arrived */
	bool may_be_passed;  /* waited long for a buffer: others may overtake it */
	/* Set on an I/O queue until the request first waits. The checks on arrival and in the
	 * parser still hold, because the turn of the loop is the same and no visit has come. */
	bool is_fresh;

	/* its admission to the namespace: guard.h */
	struct namespace *ns;		     /* counted in its n_in_flight */
	struct namespace_counters *counters; /* of the namespace, for this poller */
	struct pass pass;
	enum request_state parked_at; /* to continue with */
	void (*on_turn)(struct request *r);
	void (*on_saved)(struct request *r, int error);
	void (*on_fresh)(struct request *r);
	struct queue *abort_queue; /* Abort: the queue of its victim */
	uint64_t keys[2];	   /* of a reservation command */
	void *old_state;	   /* owned until no thread can hold it */
	struct loop_msg msg;
	uint32_t lkey;	      /* of data */
	struct buffer buffer; /* owned; may be empty */
	struct request *pair; /* fused: first and second point to each other */
	struct work read_work;
	struct mr sink; /* iWARP: for its READ while that is under way */
	struct backend_io io;
	unsigned n_ranges, range; /* Dataset Management, Copy: completed so far */
};
/* Bits of flags: none, first or second of a pair. */
static inline unsigned request_fuse(const struct request *r)
{
	return r->sqe.flags & NVME_FLAGS_FUSE_MASK;
}
/* Bytes of the current piece. */
static inline uint32_t request_chunk(const struct request *r)
{
	uint64_t left = r->length - r->n_moved;

	return r->n_chunk && r->n_chunk < left ? r->n_chunk : (uint32_t)left;
}

/* Sets the status, for `return request_end(r, NVME_OK)` in an execute function. */
static inline enum request_state request_end(struct request *r, enum nvme_status status)
{
	r->status = status;
	return REQUEST_RESPOND;
}
/* The command of this pass, which must be a command's (is_command). */
static inline struct request *request_of_pass(struct pass *pass)
{
	return container_of(pass, struct request, pass);
}
