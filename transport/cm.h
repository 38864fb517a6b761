/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager: listeners, and connections of either side. It runs on the control loop;
 * only cm_control_loop is for any thread. This is the only place that handles RDMA CM events. An
 * event is acknowledged before its callback runs, so a callback may destroy its own connection.
 */
#pragma once

#include "base/addr.h"
#include "base/loop.h"
#include "transport/device.h"

struct rdma_event_channel;
struct cm;
struct cm_conn;

enum {
	CM_PRIVATE_MAX = 196,
};

enum cm_failure {
	CM_REJECTED, /* by the peer's program, or because there is no listener: see reason */
	CM_ADDRESS,  /* no RDMA device has a route to the address */
	CM_ROUTE,
	CM_UNREACHABLE, /* no answer */
	CM_CONNECT,	/* our side failed: see error */
};

/* Why a connect failed. */
struct cm_error {
	enum cm_failure failure;
	int error;	      /* -errno, where there is one */
	int reason;	      /* CM_REJECTED: status of the CM (IB: 28 consumer, 8 no listener) */
	unsigned nvmf_status; /* CM_REJECTED: enum nvmf_cm_status of the peer; 0: unknown */
};

struct cm_conn_ops {
	/* Active side, in this order; on_failed may come at any point and is the last. */
	void (*on_resolved)(struct cm_conn *conn); /* now qp_init, attach, cm_connect */
	void (*on_established)(struct cm_conn *conn, const void *private_data, size_t n);
	void (*on_failed)(struct cm_conn *conn, const struct cm_error *error);
	/* Either side, at most once: the peer disconnected, the device was removed, or the
	 * address changed. */
	void (*on_disconnected)(struct cm_conn *conn);
};

/* The target of a CM id's context: the first member of the id's owner. */
struct cm_owner {
	bool is_listener;
};

struct cm_conn {
	/* Thread: control */
	struct cm_owner owner;
	struct cm *cm;
	struct rdma_cm_id *id; /* owned */
	const struct cm_conn_ops *ops;
	struct device *device;	 /* set from on_resolved or on_request on */
	struct device_user user; /* of device */
	bool is_disconnected;
	bool has_failed;
	union addr local, remote;
	void *context; /* of the owner */
};

/* A connect request that arrived at a listener. */
struct cm_request {
	const void *private_data;
	size_t n_private;	  /* padded to the maximum by InfiniBand CMs */
	unsigned initiator_depth; /* READs that we may have in flight (ORD) */
	unsigned responder_resources;
};

struct cm_listener {
	/* Thread: control */
	struct cm_owner owner;
	struct cm *cm;
	struct rdma_cm_id *id;
	struct device *device;	 /* NULL for a wildcard address */
	struct device_user user; /* of device */
	union addr address;	 /* with the real port if port 0 was requested */
	/* conn is new. The callee owns it: cm_accept or cm_reject, cm_conn_destroy later. */
	void (*on_request)(struct cm_listener *listener, struct cm_conn *conn,
			   const struct cm_request *request);
	/* The listener no longer works: the callee closes it. Not for a wildcard listener. */
	void (*on_device_removed)(struct cm_listener *listener);
	void *context;
};

/* The connection manager's channel on that loop. 0 or -errno. */
int cm_new(struct loop *control, struct cm **ret_cm);
void cm_free(struct cm *cm); /* accepts NULL; requires that no listener or connection is left */

/* 0 or -errno: -EADDRNOTAVAIL (no device has the address), -EADDRINUSE... */
int cm_listen(struct cm *cm, const union addr *address, int backlog, struct cm_listener *listener);
void cm_listener_close(struct cm_listener *listener); /* accepts a zeroed one */
/* Holds the device of a local address, before anything listens there, perhaps while another process
 * does. 0 and *ret_user, zeroed before; -ENODEV: a wildcard address has none; or as cm_listen. */
int cm_hold_device(struct cm *cm, const union addr *address, struct device_user *ret_user);

/* Passive side. The queue pair is made on conn->id and attached (receives are posted). 0 or
 * -errno. */
int cm_accept(struct cm_conn *conn, const void *private_data, size_t n, unsigned initiator_depth);
/* Passive side. Rejects the request and destroys conn. */
void cm_reject(struct cm_conn *conn, const void *private_data, size_t n);

/* Active side: starts to resolve destination; later events go to ops, never from inside. source may
 * be NULL. 0 with *ret_conn, which the caller owns; or -errno. */
int cm_resolve(struct cm *cm, const union addr *destination, const union addr *source,
	       unsigned timeout_ms, const struct cm_conn_ops *ops, void *context,
	       struct cm_conn **ret_conn);
/* In or after on_resolved, when the queue pair is ready. 0; or -errno, without on_failed. */
int cm_connect(struct cm_conn *conn, const void *private_data, size_t n,
	       unsigned responder_resources);

/* In on_disconnected: the name of the device if it was removed, else NULL. */
const char *cm_removed_device(const struct cm_conn *conn);
/* Notifies the peer and moves the queue pair to the error state. */
void cm_disconnect(struct cm_conn *conn);
/* After qp_deinit. Frees conn; no callback runs after it. Accepts NULL. */
void cm_conn_destroy(struct cm_conn *conn);
/* The control loop of a connection's id. Any thread, while the connection exists. */
struct loop *cm_control_loop(const struct rdma_cm_id *id);
/* A receive completed before on_established: notifies the CM (COMM_EST). */
void cm_notify_established(struct cm_conn *conn);
