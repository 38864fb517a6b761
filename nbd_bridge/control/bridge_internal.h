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
#include "nbd_bridge/control/bridge_options.h"
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

/* The path that is being removed, one at a time: bridge_path.c. */
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

enum {
	BRIDGE_URI_MAX = 512,
};
