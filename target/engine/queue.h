/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One NVMe queue: a connection, its queue pair, its commands. Made by the control thread when a
 * connect request passes all checks, handed to one poller for its life, handed back to be freed.
 *
 *     control:  ATTACHING ---> CONNECTING ---> LIVE
 *                   |  attached    |  Connect    |   disconnect, error, timeout, shutdown
 *                   +--------------+-------------+--> DYING --(poller: all is back)--> freed
 */
#pragma once

#include "base/bits.h"
#include "target/association/auth/proof.h"
#include "target/association/connect.h"
#include "target/engine/defect.h"
#include "target/engine/poller.h"
#include "target/export/qos/line.h"
#include "target/engine/sink.h"
#include "transport/capsule.h"
#include "transport/cm.h"
#include "transport/qp.h"

struct auth_session;
struct capsule_ring;
struct controller;

enum queue_state {
	QUEUE_ATTACHING,  /* the poller posts receives */
	QUEUE_CONNECTING, /* accepted; Connect has not succeeded yet */
	QUEUE_LIVE,	  /* belongs to a controller */
	QUEUE_DYING,	  /* disconnected; work requests and backend I/O come back */
};

struct queue_counters {
	uint64_t n_commands, n_reads, n_writes, read_bytes, written_bytes, n_errors;
};
struct queue {
	/* Thread: never changes */
	struct target *target;
	struct poller *poller;
	struct poller_device *pd;
	struct portal *portal;
	uint16_t qid;
	unsigned n_entries; /* of the submission queue: commands outstanding at most */
	unsigned n_slots;   /* of the send queue: responses under way at most */
	unsigned n_shared;  /* receives in the shared ring for it; 0: it has its own */
	char remote[ADDR_STRING_MAX];
	uint64_t created_ns;
	struct sinks sinks;	       /* iWARP only */
	uint32_t lkey;		       /* of its poller's memory */
	struct capsule_ring *capsules; /* its last ones; the poller writes them */
	struct guard_client guard_client;

	/* Thread: control */
	struct list node;	       /* target->queues */
	struct list member_node;       /* controller->queues */
	struct controller *member_of;  /* NULL until Connect succeeded */
	struct host_stats *host_stats; /* borrowed; likewise */
	unsigned state;		       /* enum queue_state */
	struct cm_conn *conn;	       /* owned */
	bool is_accepted, is_peer_gone, is_finish_sent;
	const char *finish_why; /* set before finish is sent, then its poller's */
	bool is_pending;	/* counted in target->n_pending: until its host is known */
	unsigned max_reads;	/* RDMA READs in flight towards the host (ORD) */
	struct loop_timer connect_timer;
	const char *why; /* it dies */
	int attach_error;
	struct proof proof;
	struct fence_question question;

	/* Thread: poller */
	struct list poller_node; /* poller->queues, while the queue pair is attached */
	struct qp qp;
	struct controller *controller; /* NULL until Connect succeeded */
	uint16_t sqsize;	       /* 0's based, from Connect */
	uint16_t sqhd;
	bool has_no_sqhd;	   /* SQ flow control is off */
	bool is_connect_sent;	   /* a Connect is at the control thread or has succeeded */
	struct auth_session *auth; /* owned by control; NULL: its host has no key */
	bool is_unproven;	   /* nothing is served before the host has proven itself */
	bool is_auth_busy;	   /* a worker thread has the session */
	bool is_proof_told;	   /* proven was sent */
	unsigned n_auth_refusals;  /* since the last proof */
	bool is_dying, is_drained, is_finishing; /* the last: shutdown, nothing new is started */
	bool has_failed;			 /* fail was sent */
	bool is_closed;				 /* any of the three: nothing new is served */
	bool is_fault;	     /* the host's doing, not only the end of the connection */
	bool is_resuming;    /* who waited goes first */
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
	char fail_reason[96];

	struct loop_msg attach, die, finish, fail, dead, proven;
	struct defect defect;
	struct connect_op connect;
	struct io_stats io[STATS_CLASSES]; /* last: of 11 KiB a read uses a third */
};

/* ---- control ----------------------------------------------------------------------- */

/* A connect request that passed the checks of portal.c: makes the queue and hands it to a
 * poller; it accepts when receives are posted. Takes conn, also on failure. */
void queue_open(struct portal *portal, struct cm_conn *conn, const struct cm_queue_request *wish,
		unsigned max_reads);
/* Disconnects; the queue frees itself once everything is back. why is a constant. */
void queue_kill(struct queue *queue, const char *why);
/* Finishes the commands in flight and then dies. why is a constant. */
void queue_finish(struct queue *queue, const char *why);
/* Refuses a connection that has no queue yet. Takes conn. */
void queue_refuse(struct cm_conn *conn, enum nvmf_cm_status status);
/* Connect succeeded. */
void queue_set_live(struct queue *queue);
/* Its host is known now, and proven where it has a key. */
void queue_admit(struct queue *queue);
const char *queue_state_name(const struct queue *queue);

/* ---- its poller ------------------------------------------------------------------------- */

/* The queue cannot go on: peer or queue pair broke. Once is enough. */
__attribute__((format(printf, 2, 3))) void queue_fail(struct queue *queue, const char *fmt, ...);
/* Something that needed the queue is over (n_busy). The queue may be gone afterwards. */
void queue_done_one(struct queue *queue);
/* What is exported now to this queue's controller; NULL if its subsystem is gone. Under
 * RCU: valid until the loop's turn ends. */
const struct subsystem *queue_subsystem(struct queue *queue);
/* Its ANA groups, likewise; NULL: it has none. */
const struct ana *queue_ana(struct queue *queue);
/* ANA: NVME_OK, or the status of a command that needs the namespace now. */
enum nvme_status queue_check_path(struct queue *queue, uint32_t nsid);
