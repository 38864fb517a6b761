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

#include "base/capture.h"
#include "base/loop.h"
#include "target/engine/poller/poller.h"
#include "target/export/guard/pass.h"
#include "target/export/qos/line.h"
#include "target/export/stats.h"
#include "transport/device.h"
#include "transport/qp.h"

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

/* Properties of the responses of a queue: bits. */
enum queue_answer {
	QUEUE_NO_SQHD = 1, /* SQ flow control is off */
	QUEUE_CAPTURED = 2,
};

struct queue {
	/* Thread: never changes. queue_create and queue_make_qp set it, and the association floor
	 * its own connection and capsules. */
	struct target *target;
	struct poller *poller;
	struct poller_device *pd;
	struct connection *connection; /* of the association floor, for its own use */
	uint16_t qid;
	const struct nvme_command *const *commands; /* by opcode: command_table.h */
	unsigned n_entries;			    /* the most commands outstanding */
	unsigned n_slots;			    /* send-queue slots for responses */
	unsigned n_shared;	      /* its receives in the shared ring; 0: it has its own */
	struct {		      /* iWARP only: sink.h */
		struct domain domain; /* pd is NULL without a domain of its own */
		struct mr memory;     /* of its poller, without remote rights */
	} sinks;
	uint32_t lkey;		       /* of its poller's memory */
	struct capsule_ring *capsules; /* borrowed; the poller records its last capsules there */
	struct guard_client guard_client;

	/* Thread: poller. queue/ alone writes these, except where noted: */
	struct list poller_node; /* poller->queues, while the queue pair is attached */
	struct qp qp;		 /* request/ posts; queue/ attaches and drains */
	enum queue_state state;
	enum queue_access access;
	struct controller *controller; /* NULL until Connect succeeded, which sets it */
	struct host *host;	       /* charged for its buffers: the controller's, or a guest */
	unsigned n_busy;       /* requests in use, and other users: all add, queue_done_one ends */
	struct buffer cqes;    /* without inline data: registered memory for responses */
	struct subsystem_ref { /* of the snapshot seen last */
		uint64_t generation;
		const struct subsystem *subsystem;
	} subsystem_ref;

	/* Thread: poller. request/ alone writes these, except where noted: */
	uint16_t sqsize, sqhd; /* sqsize: 0's based, from Connect */
	bool is_resuming;      /* request_resume runs: its request passes the line */
	unsigned n_held;       /* of n_busy: AERs; command/ counts them */
	size_t buffer_bytes;   /* of the poller's buffers that it holds */
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
	struct flow_past past;	  /* its turns under rates */
	struct queue_counters counters;

	/* queue/ alone sends these to the poller, each once. */
	struct loop_msg attach, part, drain, abandon;
	struct {
		struct loop_msg msg;
		const char *why; /* a constant */
	} finish;
	/* queue/ alone sends these to control, each once; connection.c sets their run. */
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
	/* queue/ calls these on the poller. request/ sets the first two, the association floor
	 * on_drain, before `attach`. */
	void (*abort_waiting)(struct queue *queue); /* `drain`: ends requests in lists */
	void (*abandon_lost)(struct queue *queue);  /* `abandon` */
	void (*on_drain)(struct queue *queue);
	_Atomic unsigned answer;	   /* enum queue_answer: queue_set_answer */
	struct capture_stream stream;	   /* control sets it before `attach` */
	struct io_stats io[STATS_CLASSES]; /* request/; last: a read uses a third of these 11 KiB */
};

/* Control or poller: sets or clears one bit. */
static inline void queue_set_answer(struct queue *queue, enum queue_answer bit, bool is_on)
{
	if (is_on)
		atomic_fetch_or(&queue->answer, bit);
	else
		atomic_fetch_and(&queue->answer, ~(unsigned)bit);
}
/* Poller. It starts no command any more; those it has may still be under way. */
static inline bool queue_is_dying(const struct queue *queue)
{
	return queue->state >= QUEUE_DRAINING;
}
