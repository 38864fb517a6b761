/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's half of a queue: the connection to a host, from the connect request until
 * all is freed. It creates the other half (engine/queue.h), passes it to a poller, and gets it back
 * when the queue is over.
 *
 *     ATTACHING ---> CONNECTING ---> LIVE ---> FINISHING
 *         | attached     | Connect    |            |       disconnect, error, timeout, shutdown
 *         +--------------+------------+------------+--> DYING --(over)--> FREED
 *                                                         |                ^
 *                            a defect of rblkd +--> STRANDING, STRANDED -+
 *
 * While a host leaves for a successor of rblkd: LIVE ---> PARTING ---> PARTED ---> DYING.
 */
#pragma once

#include "base/bits.h"
#include "target/association/auth/proof.h"
#include "target/association/connect.h"
#include "target/engine/queue.h"

struct host_stats;

/* What happens to a connection, for its association (association.c). Control thread, except
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

/* What the connection manager must still send to the peer. */
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

/* All of these: control thread. */

/* Handles a connect request that passed the checks of portal.c: creates the queue and passes it to
 * a poller; accepts when receives are posted. Owns cm from here on, also on failure. events: a
 * constant. */
void connection_open(struct portal *portal, struct cm_conn *cm, const struct cm_queue_request *wish,
		     unsigned max_reads, const struct connection_events *events);
/* Disconnects; the connection frees itself once everything has returned. why is for the log. */
void connection_kill(struct connection *c, const char *why);
/* Ends the connection once its commands in flight have ended. why is a constant. */
void connection_finish(struct connection *c, const char *why);
/* The stores go to another rblkd. An admin queue stays without them, so that a host that resets its
 * controller has its answers; so do, silent, the I/O queues of a host that is about to, which takes
 * a lost one for a reason to wait. Any other ends as by connection_finish. why is a constant. */
void connection_part(struct connection *c, const char *why);
/* Whether all that remain are stranded, or have parted. */
bool connections_are_over(const struct target *target);
/* Refuses a peer that has no connection yet. Owns cm from here on. */
void connection_refuse(struct cm_conn *cm, enum nvmf_cm_status status);
/* Ends it for an invariant that broke, here or on its poller: a defect of rblkd (defect.h). what is
 * for the log. Accepts one that is dying. */
COLD void connection_break(struct connection *c, const char *what);
/* Connect succeeded. */
void connection_set_live(struct connection *c);
/* Its host is now known, and authenticated if it has a key: it no longer counts in
 * target->n_pending, and its address is known (admission.h). Once for a connection. */
void connection_admit(struct connection *c, const char *hostnqn);
/* "live" also while finishing or parting; "dying" also when stranded. */
const char *connection_state_name(const struct connection *c);

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
