/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One NVMe queue: a queue pair, its requests and its responses. It belongs to one poller from
 * `attach` to `over`. The control thread has the other half, struct connection, with its own state
 * machine (association/connection.h). Each message between the two has the name of its step.
 *
 *     control                                   poller: enum queue_state
 *     attach ------------------------------->   NEW ----> SERVING
 *            <------------------------ attached     |         | \
 *     finish ------------------------------->       |         |  FINISHING  ends its commands
 *            <-------------------------- failed     +--------+---> FAILED   broken, or finished
 *     drain  ------------------------------->                    DRAINING   the device ends
 *                                                                DRAINED    the backend ends
 *            <---------------------------- over                  OVER       control frees it
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

struct controller;

enum queue_state {
	QUEUE_NEW,	 /* before `attach` arrives */
	QUEUE_SERVING,	 /* the only state that accepts any command */
	QUEUE_PARTING,	 /* queue_state.h: only properties; commands in flight end */
	QUEUE_PARTED,	 /* the same, and no command uses a store or a namespace */
	QUEUE_FINISHING, /* rblkd stops or the portal drains: commands in flight end */
	QUEUE_FAILED,	 /* `failed` was sent */
	QUEUE_DRAINING,	 /* until the device has returned its work requests */
	QUEUE_DRAINED,	 /* until the backend and other threads have returned requests */
	QUEUE_OVER,	 /* `over` was sent; control owns the queue */
};

/* Which commands the host may send. */
enum queue_access {
	QUEUE_UNCONNECTED, /* Connect */
	QUEUE_CONNECTING,  /* Connect, which fails: the control thread handles one */
	QUEUE_UNPROVEN,	   /* Authentication Send and Receive: the host has a key to prove */
	QUEUE_CONNECTED,   /* any command */
};

struct queue {
	/* Thread: never changes */
	struct target *target;
	struct poller *poller;
	struct poller_device *pd;
	struct connection *connection; /* of the association floor, for its own use */
	uint16_t qid;
	const struct nvme_command *const *commands; /* by opcode: command_table.h */
	unsigned n_entries;			    /* the most commands outstanding */
	unsigned n_slots;			    /* send-queue slots for responses */
	unsigned n_shared;	       /* its receives in the shared ring; 0: it has its own */
	struct sinks sinks;	       /* iWARP only */
	uint32_t lkey;		       /* of its poller's memory */
	struct capsule_ring *capsules; /* borrowed; the poller records its last capsules there */
	struct guard_client guard_client;

	/* Thread: poller */
	struct list poller_node; /* poller->queues, while the queue pair is attached */
	struct qp qp;
	enum queue_state state;
	enum queue_access access;
	struct controller *controller; /* NULL until Connect succeeded */
	struct host *host;	       /* charged for its buffers: the controller's, or a guest */
	uint16_t sqsize, sqhd;	       /* sqsize: 0's based, from Connect */
	bool is_resuming;	       /* request_resume runs: its request passes the line */
	unsigned n_busy;	       /* requests in use, and other users of the queue */
	unsigned n_held;	       /* of them: AERs */
	size_t buffer_bytes;	       /* of the poller's buffers that it holds */
	/* Behind the queue in its mapping; the lists have those that are free again */
	struct request *requests, *free_requests;
	struct response *responses, *free_responses;
	unsigned n_requests, n_responses;
	unsigned pair;		  /* enum pair_state: pair.h */
	struct request *first;	  /* while PAIR_HELD */
	struct list slot_waiters; /* of struct request: for a send-queue slot */
	struct list read_waiters; /* of struct request: for a slot and a READ credit */
	struct list short_node;	  /* poller->short_queues: slot_waiters is not empty */
	uint64_t credit_ns;	  /* while it is there: when slots last came back */
	struct buffer cqes;	  /* without inline data: registered memory for responses */
	struct subsystem_ref {	  /* of the snapshot seen last */
		uint64_t generation;
		const struct subsystem *subsystem;
	} subsystem_ref;
	struct flow_past past; /* its turns under rates */
	struct queue_counters counters;

	/* Messages to the poller, each sent once. */
	struct loop_msg attach, part, drain, abandon;
	struct {
		struct loop_msg msg;
		const char *why; /* a constant */
	} finish;
	/* Messages to control, each sent once; connection.c sets their run. */
	struct {
		struct loop_msg msg;
		int error; /* 0; or -errno: it cannot receive, and control drains it */
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
	} broken; /* a defect of rblkd: queue_break */
	struct loop_msg parted, abandoned, over;
	void (*on_drain)(struct queue *queue); /* called on the poller; of the association floor */
	_Atomic unsigned answer;	       /* enum queue_answer */
	struct capture_stream stream;	       /* control sets it before `attach` */
	struct io_stats io[STATS_CLASSES];     /* last: a read uses a third of these 11 KiB */
};

/* ---- control ------------------------------------------------------------------------- */
void queue_init(struct queue *queue); /* in queue_create */
/* From here on the poller owns the queue. */
void queue_attach(struct queue *queue);
/* Commands in flight end, then the queue fails without a fault. why is a constant. */
void queue_finish(struct queue *queue, const char *why);
/* Moves it to QUEUE_PARTING, unless it has failed. */
void queue_part(struct queue *queue);
/* The queue starts nothing more. It is over when its commands and work requests are back. */
void queue_drain(struct queue *queue);
/* A defect keeps it from ending: see request_abandon_lost. `abandoned` answers, and is awaited. */
void queue_abandon(struct queue *queue);

/* ---- poller -------------------------------------------------------------------------- */
/* It starts no command any more; those it has may still be under way. */
static inline bool queue_is_dying(const struct queue *queue)
{
	return queue->state >= QUEUE_DRAINING;
}
