/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One NVMe queue: a queue pair, its requests and its responses. It belongs to one poller from `attach`
 * to `over`. The control thread has the other half, struct connection (association/connection.h), with
 * a machine of its own; each message between the two is named after the step that it makes.
 *
 *     control                                   poller: enum queue_state
 *     attach ------------------------------->   NEW ----> SERVING
 *            <------------------------ attached     |         | \
 *     finish ------------------------------->       |         |  FINISHING   serves what it has begun
 *            <-------------------------- failed     +--------+---> FAILED    broken, or finished
 *     drain  ------------------------------->                    DRAINING    until the device is done
 *                                                                DRAINED     until the backend is done
 *            <---------------------------- over                  OVER        control frees it
 * Only a SERVING queue takes new commands.
 */
#pragma once

#include "base/bits.h"
#include "target/engine/poller.h"
#include "target/engine/queue_path.h"
#include "target/engine/sink.h"
#include "target/export/qos/line.h"
#include "transport/capsule.h"
#include "transport/cm.h"
#include "transport/qp.h"

struct capsule_ring;
struct connection;
struct controller;
struct host;

enum queue_state {
	QUEUE_NEW, /* control makes it, or `attach` is on its way */
	QUEUE_SERVING,
	QUEUE_FINISHING, /* rblkd stops or the portal drains: commands in flight end */
	QUEUE_FAILED,	 /* `failed` was sent */
	QUEUE_DRAINING,	 /* the device returns its work requests */
	QUEUE_DRAINED,	 /* the backend and other threads return requests */
	QUEUE_OVER,	 /* `over` was sent; control owns all of it */
};

/* What the host may send on it. */
enum queue_access {
	QUEUE_UNCONNECTED, /* Connect */
	QUEUE_CONNECTING,  /* Connect, which fails: one is at the control thread */
	QUEUE_UNPROVEN,	   /* Authentication Send and Receive: the host has a key */
	QUEUE_CONNECTED,   /* any command */
};

struct queue {
	/* Thread: never changes */
	struct target *target;
	struct poller *poller;
	struct poller_device *pd;
	struct connection *connection; /* the association floor's; this floor never looks into it */
	uint16_t qid;
	unsigned n_entries;	       /* of the submission queue: commands outstanding at most */
	unsigned n_slots;	       /* of the send queue: responses under way at most */
	unsigned n_shared;	       /* receives in the shared ring for it; 0: it has its own */
	struct sinks sinks;	       /* iWARP only */
	uint32_t lkey;		       /* of its poller's memory */
	struct capsule_ring *capsules; /* its last ones; the poller writes them */
	struct guard_client guard_client;

	/* Thread: poller */
	struct list poller_node; /* poller->queues, while the queue pair is attached */
	struct qp qp;
	unsigned state;		       /* enum queue_state */
	unsigned access;	       /* enum queue_access */
	struct controller *controller; /* NULL until Connect succeeded */
	struct host
		*host;	 /* its buffers count for it: the controller's, without a proof the guest */
	uint16_t sqsize; /* 0's based, from Connect */
	uint16_t sqhd;
	bool has_no_sqhd;    /* SQ flow control is off */
	bool is_resuming;    /* request_resume runs: a request in line passes the line */
	unsigned n_busy;     /* requests in use, and other things that need the queue */
	unsigned n_held;     /* of them: AERs */
	size_t buffer_bytes; /* held, of the poller's buffers */
	/* Behind the queue in its mapping; of those that were ever used the free ones */
	struct request *requests, *free_requests;
	struct response *responses, *free_responses;
	unsigned n_requests, n_responses;
	struct request *first;	  /* of a fused pair: the next command must be its second */
	bool has_first_failed;	  /* and so does the second */
	struct list slot_waiters; /* of struct request: for a slot to answer with */
	struct list read_waiters; /* of struct request: a slot and a READ credit */
	struct list short_node;	  /* poller->short_queues: slot_waiters is not empty */
	uint64_t credit_ns;	  /* when slots came back last, while that is so */
	struct buffer cqes;	  /* registered memory for responses, without inline data */
	struct subsystem_ref {	  /* of the snapshot seen last */
		uint64_t generation;
		const struct subsystem *subsystem;
	} subsystem_ref;
	struct flow_past past; /* under rates */
	struct queue_counters counters;

	/* Messages to the poller; each is sent once */
	struct loop_msg attach, drain;
	struct {
		struct loop_msg msg;
		const char *why; /* a constant */
	} finish;
	/* Messages to control, each sent once; their run is the connection's */
	struct {
		struct loop_msg msg;
		int error; /* 0 or -errno: it cannot receive, and control drains it */
	} attached;
	struct {
		struct loop_msg msg;
		bool is_fault; /* the host broke a rule, or the queue pair broke */
		char why[96];
	} failed;
	struct {
		struct loop_msg msg;
		bool is_sent;
		char what[128];
	} broken; /* a defect of ours: queue_break */
	struct loop_msg over;
	void (*on_drain)(struct queue *queue); /* on the poller; the connection's */

	struct io_stats io[STATS_CLASSES]; /* last: of 11 KiB a read uses a third */
};

/* ---- control ------------------------------------------------------------------------- */

void queue_init(struct queue *queue); /* in queue_create */
/* From here on it is its poller's. */
void queue_attach(struct queue *queue);
/* Commands in flight end, then it fails without a fault. why is a constant. */
void queue_finish(struct queue *queue, const char *why);
/* It starts nothing any more, and is over when everything is back. */
void queue_drain(struct queue *queue);

/* ---- its poller ---------------------------------------------------------------------- */

static inline bool queue_is_dying(const struct queue *queue)
{
	return queue->state >= QUEUE_DRAINING;
}
/* host: for which the queue's buffers count from now on; NULL: none. */
void queue_set_access(struct queue *queue, enum queue_access access, struct host *host);
/* The host broke a rule, or the queue pair broke: the first call ends the queue. */
__attribute__((format(printf, 2, 3))) void queue_fail(struct queue *queue, const char *fmt, ...);
/* An invariant broke: a defect of rblkd (association/defect.h). Control ends the queue. */
__attribute__((format(printf, 2, 3), cold)) void queue_break(struct queue *queue, const char *fmt,
							     ...);
/* Something that needed the queue is over (n_busy). The queue may be gone afterwards. */
void queue_done_one(struct queue *queue);
