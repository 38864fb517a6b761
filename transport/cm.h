/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager on the control loop: listeners, and connections from either
 * side. The only place that handles RDMA CM events. Events are acknowledged before a
 * callback runs, so a callback may destroy the connection it is about.
 */
#pragma once

#include "base/addr.h"
#include "base/loop.h"
#include "transport/qp.h"

struct rdma_event_channel;
struct cm;
struct cm_conn;

enum {
	CM_PRIVATE_MAX = 196,
};

enum cm_failure {
	CM_REJECTED, /* by the peer's program or for lack of a listener: see reason */
	CM_ADDRESS,  /* no RDMA device has a route to the address */
	CM_ROUTE,
	CM_UNREACHABLE, /* no answer */
	CM_CONNECT,	/* our side could not go on: error */
};

/* What is known of a failed connect. */
struct cm_error {
	enum cm_failure failure;
	int error;	      /* -errno, where there is one */
	int reason;	      /* CM_REJECTED: the CM's status (28 consumer, 8 no listener on IB) */
	unsigned nvmf_status; /* CM_REJECTED by a consumer: enum nvmf_cm_status; 0 unknown
			       */
};

struct cm_conn_ops {
	/* Active side, in this order: make the queue pair; connected; or failed at any
	 * point. */
	void (*on_resolved)(struct cm_conn *conn); /* device known: qp_init, attach, cm_connect */
	void (*on_established)(struct cm_conn *conn, const void *private_data, size_t n);
	void (*on_failed)(struct cm_conn *conn, const struct cm_error *error);
	/* Either side, at most once: the peer hung up, the device went, the address
	 * changed. */
	void (*on_disconnected)(struct cm_conn *conn);
};

/* What the context of a CM id points to, first in whatever owns the id. */
struct cm_owner {
	bool is_listener;
};

struct cm_conn {
	/* Thread: control */
	struct cm_owner owner;
	struct cm *cm;
	struct rdma_cm_id *id; /* owned */
	const struct cm_conn_ops *ops;
	struct device *device;	 /* known from on_resolved / the request on */
	struct device_user user; /* of device */
	bool is_disconnected;
	bool has_failed;
	union addr local, remote;
	void *context; /* the owner's */
};

/* A connect request that arrived at a listener. */
struct cm_request {
	const void *private_data;
	size_t n_private;	  /* padded to the maximum by InfiniBand CMs */
	unsigned initiator_depth; /* READs that we may have in flight towards the peer
				     (ORD) */
	unsigned responder_resources;
};

struct cm_listener {
	/* Thread: control */
	struct cm_owner owner;
	struct cm *cm;
	struct rdma_cm_id *id;
	struct device *device;	 /* NULL for a wildcard address */
	struct device_user user; /* of device */
	union addr address;	 /* with the real port, when 0 was asked for */
	/* conn is new: the callee takes it (cm_accept, cm_reject, cm_conn_destroy later).
	 */
	void (*on_request)(struct cm_listener *listener, struct cm_conn *conn,
			   const struct cm_request *request);
	/* It listens no more: to be closed. Not for a wildcard listener. */
	void (*on_device_removed)(struct cm_listener *listener);
	void *context;
};

int cm_new(struct loop *control, struct cm **ret_cm);
void cm_free(struct cm *cm); /* accepts NULL; no listener or connection is left */

/* 0 or -errno: -EADDRNOTAVAIL (no device has the address), -EADDRINUSE... */
int cm_listen(struct cm *cm, const union addr *address, int backlog, struct cm_listener *listener);
void cm_listener_close(struct cm_listener *listener); /* accepts a zeroed one */

/* Passive side. The queue pair was made on conn->id and attached (receives are posted). 0
 * or -errno. */
int cm_accept(struct cm_conn *conn, const void *private_data, size_t n, unsigned initiator_depth);
/* Then destroys conn. */
void cm_reject(struct cm_conn *conn, const void *private_data, size_t n);

/* Active side: starts resolving; later events come to ops. source may be NULL. 0 or
 * -errno. */
int cm_resolve(struct cm *cm, const union addr *destination, const union addr *source,
	       unsigned timeout_ms, const struct cm_conn_ops *ops, void *context,
	       struct cm_conn **ret_conn);
/* In or after on_resolved, when the queue pair is ready. 0 or -errno (on_failed is not
 * called). */
int cm_connect(struct cm_conn *conn, const void *private_data, size_t n,
	       unsigned responder_resources);

/* In on_disconnected: the device's name, when that is what went away; else NULL. */
const char *cm_removed_device(const struct cm_conn *conn);
/* Tells the peer and moves the queue pair to the error state. */
void cm_disconnect(struct cm_conn *conn);
/* After qp_deinit. conn is freed; no callback runs any more. Accepts NULL. */
void cm_conn_destroy(struct cm_conn *conn);
/* The control loop of a connection's id. Any thread, while the connection lives. */
struct loop *cm_control_loop(const struct rdma_cm_id *id);
/* A receive arrived before on_established: tells the CM (COMM_EST). Control thread. */
void cm_notify_established(struct cm_conn *conn);
