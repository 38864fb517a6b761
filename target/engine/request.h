/* SPDX-License-Identifier: BSD-3-Clause */
/* One command, from its capsule to its response; request.c has a drawing. The queue's poller. */
#pragma once

#include "target/store/whole.h"
#include "target/export/guard/guard.h"
#include "target/engine/poller.h"
#include "target/engine/timing.h"
#include "transport/capsule.h"
#include "transport/qp.h"

struct nvme_command;
struct queue;

enum request_state {
	REQUEST_FREE,
	REQUEST_PARSE,	   /* is the command well formed, what does it need? */
	REQUEST_THROTTLED, /* in a line of qos/throttle.c */
	REQUEST_TAKE_BUFFER,
	REQUEST_WAIT_BUFFER, /* arena->waiters */
	REQUEST_READ_DATA,
	REQUEST_WAIT_READ, /* queue->read_waiters */
	REQUEST_READING,   /* the device fetches the host's data */
	REQUEST_PARKED,	   /* guard->locals[].parked: somebody is alone in its range */
	REQUEST_EXECUTE,
	REQUEST_BACKEND, /* the backend has it */
	REQUEST_TURN,	 /* guard->turns, or it has its turn */
	REQUEST_PAIR,	 /* first of a fused pair: waits for the second, or goes with it */
	REQUEST_CONTROL, /* the control thread has it (Connect, Abort) */
	REQUEST_HELD,	 /* an Asynchronous Event Request without an event */
	REQUEST_RESPOND,
	REQUEST_WAIT_SLOT, /* queue->slot_waiters */
	REQUEST_FINISH,
	REQUEST_GONE, /* not a state: the request was finished, do not touch it */
};

/* As the host sees it (the low bits of NVMe opcodes). */
enum direction {
	DIRECTION_NONE,
	DIRECTION_H2C, /* host to controller: we RDMA READ, or it came in the capsule */
	DIRECTION_C2H, /* controller to host: we RDMA WRITE */
};

struct request {
	/* Thread: poller */
	struct queue *queue;
	struct list wait; /* whichever FIFO the state names */
	struct request *next_free;
	struct fair_entry turn;		    /* of those that are throttled, or wait for a buffer */
	struct nvme_sqe sqe;		    /* a copy: the receive goes back at once */
	const struct nvme_command *command; /* its entry: parse.c finds it */
	struct line *line;		    /* where it stands, while it is throttled */
	struct sgl_data sgl;
	unsigned state;	   /* enum request_state */
	uint32_t received; /* bytes of the capsule */
	struct recv *recv; /* kept only for its in-capsule data */
	unsigned *kept;	   /* its host's, while it counts there (receives.h) */
	struct timing timing;
	struct capsule *capsule; /* what is kept of it: its queue's */

	/* Zero for each new command, from here to is_fresh (request.c, prepare) */
	uint64_t result;				  /* dwords 0 and 1 of the response */
	void *data;					  /* where it is */
	enum request_state (*execute)(struct request *r); /* returns the next state */
	void (*after_turn)(struct request *r);		  /* NULL: done; else goes on, or ends it */
	uint64_t held_ns;				  /* by rates; while it is: since when */
	uint64_t n_moved;				  /* of chunks: over and done */
	whole_hold hold; /* of blocks in memory that the device reads */
	enum nvme_status status;
	enum nvme_status abort_status; /* not NVME_OK: it must not start any more */
	enum direction direction;
	uint32_t length;     /* bytes to move; at most what the SGL offers */
	uint32_t n_buffer;   /* bytes of buffer to take, if not just length */
	unsigned n_paid;     /* of the steps of qos/throttle.c */
	uint32_t n_chunk;    /* Compare, Verify, Copy: bytes at once; 0: all */
	bool is_direct;	     /* from or to namespace memory, no buffer */
	bool takes_turn;     /* it does not enter, its turn comes */
	bool is_started;     /* had its turn: cannot be aborted */
	bool has_first_data; /* fused, second: the first's data is there */
	bool may_be_passed;  /* it waited long for a buffer: others need not any more */
	/* Of an I/O queue, and it has not waited for anything yet: what its arrival and its parser
	 * have checked holds, for it is the same turn of the loop, and no visit has come. */
	bool is_fresh;

	/* At the namespace: guard.h */
	struct namespace *ns;		     /* counted in its n_in_flight */
	struct namespace_counters *counters; /* its, of this poller */
	struct pass pass;
	unsigned parked_at; /* enum request_state to go on with */
	void (*on_turn)(struct request *r);
	void (*on_saved)(struct request *r, int error);
	struct queue *abort_queue; /* Abort: where its victim is */
	uint64_t keys[2];	   /* of a reservation command */
	void *old_state;	   /* owned until nobody can hold it */
	struct loop_msg msg;
	uint32_t lkey;	      /* of data */
	struct buffer buffer; /* owned; may be empty */
	struct request *pair; /* fused: first and second point to each other */
	struct work read_work;
	struct mr sink; /* iWARP: of its READ while that is on its way */
	struct backend_io io;
	unsigned n_ranges, range; /* Dataset Management, Copy: done so far */
};
/* Bits of flags: none, first or second of a pair. */
static inline unsigned request_fuse(const struct request *r)
{
	return r->sqe.flags & NVME_FLAGS_FUSE_MASK;
}
/* Bytes of the piece at hand. */
static inline uint32_t request_chunk(const struct request *r)
{
	uint64_t left = r->length - r->n_moved;

	return r->n_chunk && r->n_chunk < left ? r->n_chunk : (uint32_t)left;
}

/* recv_ring's on_recv, for shared and own rings. */
void request_on_recv(struct recv *recv, struct qp *qp, const struct completion *c);
/* Enters a state; runs steps until someone else holds the request. */
void request_run(struct request *r, enum request_state next);
/* Sets the status, for `return request_end(r, NVME_OK)` in an execute function. */
enum request_state request_end(struct request *r, enum nvme_status status);
/* Tries to get the buffer that it needs; those who wait are asked by poller.c. */
enum buffer_result request_take_buffer(struct request *r);
enum request_state request_no_buffer(struct request *r); /* there never is: a defect */
void request_release_receive(struct request *r);	 /* its data was copied */
/* Who waits for the queue's slots or credits goes on. */
void request_resume(struct queue *queue);
/* It has an abort_status: ends it if it waits for something of ours; else false. */
bool request_abort_now(struct request *r);
/* Abort: the same, with the status; false when it can be stopped no more. */
bool request_abort(struct request *r, enum nvme_status status);
/* A dying queue: drops requests that wait for something of ours. The others come back. */
void request_abort_waiting(struct queue *queue);
/* Counts the request in the namespace, whose memory lives at least until it finishes. */
void request_take_namespace(struct request *r, struct namespace *ns);
void request_give_namespace(struct request *r); /* accepts that none was taken */
/* Returns its counters, for namespace_give (which accepts NULL). */
struct namespace_counters *namespace_take(struct queue *queue, struct namespace *ns);
void namespace_give(struct namespace_counters *counters);
const char *request_find_host(struct backend_io *io);
