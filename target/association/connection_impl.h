/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection from inside, for the files that share it: see connection.h. */
#pragma once

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "target/association/auth/proof.h"
#include "target/engine/queue/queue.h"
#include "transport/wire/fabrics.h"

struct connection;
struct controller;
struct host_stats;
struct request;

/* The reason why the fence holds a Connect. */
enum fence_wait {
	FENCE_NOTHING, /* it is not held */
	FENCE_QUEUES,  /* queues of an older association are dying */
	FENCE_WRITES,  /* a live association has older writes, or they are unknown */
	FENCE_STORES,  /* another rblkd still has the stores */
};

/* A Connect command on its way to the control thread and back. Owner: the connection; one at a
 * time. */
struct connect_op {
	struct loop_msg msg;
	struct connection *connection;
	struct request *request; /* the poller's; control does not touch it */
	/* As the host sent it. */
	uint16_t qid, sqsize, cntlid;
	uint8_t cattr;
	uint32_t kato_ms;
	uint8_t hostid[16];
	char subnqn[NVMF_NQN_MAX + 1], hostnqn[NVMF_NQN_MAX + 1];
	/* Thread: control; while the fence holds the Connect */
	struct list node; /* target->held_connects */
	struct loop_timer deadline;
	enum fence_wait waits_for;
	uint64_t held_in;  /* the last round of the fence that began before it was held */
	unsigned n_rounds; /* rounds that have ended for it */
	uint64_t since;	   /* later writes do not count; ticks */
	uint64_t tick;	   /* of the fence, when the Connect was held */
	/* The answer. */
	enum nvme_status status;
	uint32_t result;
	struct controller *controller;
};

/* The subject of a log record about a Connect, for callers that know connection.h and portal.h. */
#define CONNECT_ABOUT(op)                                                                          \
	LOG_ABOUT(.subsystem = (op)->subnqn, .host = (op)->hostnqn,                                \
		  .portal = (op)->connection->portal->name)

/* The fence's question about the writes of a queue. */
struct fence_question {
	/* Thread: any */
	_Atomic bool is_asked;
	_Atomic uint64_t oldest_write; /* arrival of the oldest outstanding one; ticks */
};

/* Events of a connection, for its association (association.c). Control thread, except
 * on_drain; never from inside connection_open. */
struct connection_events {
	/* The limit of time for the first proof is over: the connection is live. */
	void (*on_timeout)(struct connection *c);
	/* It is DYING, and `drain` was sent. why is for the log. */
	void (*on_dying)(struct connection *c, const char *why);
	/* Its queue is over. Both are freed after the call. */
	void (*on_over)(struct connection *c);
	/* One connection fewer is waited for: it was freed, is stranded, or has parted. */
	void (*on_gone)(struct target *target);
	/* Poller of the queue: it starts nothing more. */
	void (*on_drain)(struct queue *queue);
};

enum connection_state {
	CONNECTION_ATTACHING,  /* the poller posts receives */
	CONNECTION_CONNECTING, /* accepted; Connect has not succeeded yet */
	CONNECTION_LIVE,       /* belongs to a controller */
	CONNECTION_FINISHING,  /* LIVE, and `finish` was sent */
	CONNECTION_PARTING,    /* LIVE, and `part` was sent */
	CONNECTION_PARTED,     /* LIVE, but its commands need no store */
	CONNECTION_DYING,      /* `drain` was sent; work requests and backend I/O are returning */
	CONNECTION_STRANDING,  /* `abandon` was sent after a defect */
	CONNECTION_OVER,       /* over meanwhile: the answer to `abandon` is under way */
	CONNECTION_STRANDED,   /* after a defect some do not return */
	CONNECTION_FREED,
};

/* The message that the connection manager must still send to the peer. */
enum connection_peer {
	PEER_WAITS,    /* an accept or a reject */
	PEER_ACCEPTED, /* a disconnect */
	PEER_GONE,     /* nothing: the peer left before it was accepted */
};

struct connection {
	/* Thread: never changes */
	struct target *target;
	struct portal *portal;
	const struct connection_events *events;
	struct queue *queue; /* owned; from attach to over, control reads only what never changes */
	char remote[ADDR_STRING_MAX];
	uint64_t created_ns;
	bool from_stranger; /* admission.h: its address was not known */

	/* Thread: control */
	enum connection_state state;
	struct list node;	       /* target->connections */
	struct list member_node;       /* controller->connections */
	struct controller *controller; /* NULL until Connect succeeded */
	struct host_stats *host_stats; /* borrowed; NULL: not admitted */
	struct cm_conn *cm;	       /* owned */
	enum connection_peer peer;
	unsigned max_reads; /* RDMA READs outstanding at the host (ORD) */
	/* Runs until Connect, then until the first proof; after a defect, until stranding. */
	struct loop_timer timer;
	struct proof proof;
	struct fence_question question;
	struct connect_op connect;
};

/* Whether it counts for its host (connection_admit). */
static inline bool connection_is_admitted(const struct connection *c)
{
	return c->host_stats;
}
/* Whether it belongs to a controller, and commands may run. */
static inline bool connection_is_live(const struct connection *c)
{
	return c->state >= CONNECTION_LIVE && c->state < CONNECTION_DYING;
}
/* Whether it stays for a while, without the stores (connection_part). */
static inline bool connection_is_parting(const struct connection *c)
{
	return c->state == CONNECTION_PARTING || c->state == CONNECTION_PARTED;
}
/* Whether `drain` was sent: its queue starts nothing more. */
static inline bool connection_is_dying(const struct connection *c)
{
	return c->state >= CONNECTION_DYING;
}
