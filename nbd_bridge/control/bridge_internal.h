/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume process's own state, between its files; each calls those below it:
 *
 *   bridge         start, connections, the volume's events
 *   bridge_rpc     status, reopen, detach
 *   bridge_clients clients and workers in status
 *   metrics        the same figures for Prometheus
 *   figures        what both tell
 *   bridge_path    paths added and removed
 *   bridge_stop    the orderly end
 *   bridge_state   states, addresses
 *
 * The pool (pool.h) has the workers, and balance.h decides which of them serves a connection.
 */
#pragma once

#include <signal.h>

#include "base/capture_rpc.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rpc.h"
#include "nbd_bridge/control/bridge.h"
#include "nbd_bridge/control/pool.h"

enum bridge_state {
	BRIDGE_OPENING, /* the first connect */
	BRIDGE_SERVING,
	BRIDGE_STOPPING, /* connections finish what is in flight */
	BRIDGE_FLUSHING,
	BRIDGE_REMOVING, /* the queues go */
	BRIDGE_CLOSING,	 /* the volume goes */
};

enum bridge_departure_state {
	BRIDGE_DEPARTURE_NONE,
	BRIDGE_DEPARTURE_WAITING,
	BRIDGE_DEPARTURE_FLUSHING, /* a worker has the Flush */
};

/* Of a path that is being removed, one at a time: bridge_path.c. */
struct bridge_departure {
	enum bridge_departure_state state;
	union addr address;
	struct loop_timer look;
};

struct http;

struct bridge {
	/* Thread: control */
	const struct bridge_config *config; /* borrowed */
	uint64_t start_ns;		    /* clock_ns() */
	struct http *http;		    /* owned; NULL: none */
	struct loop loop;
	enum bridge_state state;
	struct volume *volume;
	struct volume_info info;
	struct nbd_export export;
	struct frontend_host host;
	struct frontend *kernel;  /* owned, NULL without */
	struct frontend *sockets; /* owned */
	struct rpc_server *rpc;
	struct capture capture; /* of the volume's commands */
	struct capture_service captures;
	struct bridge_departure departure;
	struct loop_fd signals;
	struct loop_timer deadline;
	struct list conns;
	struct pool pool;
	unsigned n_removing;
	unsigned n_conns, next_conn_id;
	unsigned n_of[CLIENT_KINDS];	  /* of n_conns */
	const struct nbd_conn *exit_with; /* the process ends with this connection */
	struct log_limit log_limit;
	char note[sizeof(((struct error *)0)->message) * 3 + 4];
	int exit_code;
	struct error *error; /* borrowed: the caller's */
};

/* ---- bridge_state.c ---- */

enum {
	BRIDGE_URI_MAX = 512,
};
/* Where NBD clients find the volume, or "". Returns buf. */
const char *bridge_uri(const struct bridge *bridge, char buf[BRIDGE_URI_MAX]);
/* "/dev/nbd0", or "" without one; owned by the front end. */
const char *bridge_device(const struct bridge *bridge);
/* Checks the move against the table. */
void bridge_move(struct bridge *bridge, enum bridge_state state);

/* ---- bridge_stop.c ---- */

/* Begins the orderly end; more calls change nothing. may_leave: see struct frontend_ops. */
void bridge_stop(struct bridge *bridge, bool may_leave);
/* The same because of an error, which bridge_run returns. */
void bridge_fail(struct bridge *bridge, const struct error *error);
/* A connection is gone: after the last one, a stop that waits for it goes on. */
void bridge_stop_goes_on(struct bridge *bridge);

/* ---- bridge_path.c ---- */

/* "address": "ADDRESS:PORT". 0, or -errno with *error. The path then connects, or leaves. */
int bridge_path_add(struct bridge *bridge, struct json_object *params, struct error *error);
int bridge_path_remove(struct bridge *bridge, struct json_object *params, struct error *error);
/* A path leaves, by discovery perhaps: it is seen off, if no other is. */
void bridge_path_look(struct bridge *bridge);
/* The process ends: a path that leaves stays, unless its Flush is out; then bridge_stop_goes_on
 * follows. */
void bridge_path_stop(struct bridge *bridge);

/* ---- bridge_rpc.c ---- */
extern const struct rpc_method bridge_rpc_methods[];
