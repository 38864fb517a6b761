/* SPDX-License-Identifier: BSD-3-Clause */
/* Control's side of a lane: its connection to the target (link.c). */
#pragma once

#include <stdbool.h>

#include "base/loop.h"
#include "transport/cm.h"

struct error;
struct lane;
struct path;
struct volume_queue;

enum link_state {
	LINK_IDLE,
	LINK_RESOLVING,
	LINK_ATTACHING,	 /* the I/O loop takes cq and qp */
	LINK_CONNECTING, /* the connection manager is at work */
	LINK_STARTING,	 /* the Connect command is out */
	LINK_LIVE,
	LINK_STOPPING, /* the I/O loop drains */
};

/* What a link notifies its path of. */
struct link_ops {
	/* The association is lost with this link: everything has to go down. */
	void (*on_lost)(struct path *path, const struct error *error);
	/* The link is IDLE, after a stop or an attempt that failed. */
	void (*on_idle)(struct path *path);
};

struct link {
	/* Thread: control */
	const struct link_ops *ops; /* borrowed: static */
	struct lane *lane;	    /* borrowed: the other side */
	enum link_state state;
	struct cm_conn *conn;	    /* owned */
	struct loop_timer deadline; /* of one attempt to connect */
	struct loop_timer retry;    /* a queue that alone could not be connected */
	uint64_t down_since_ns;	    /* of such a queue; 0: none */
	unsigned n_retries;
};

const char *link_state_name(enum link_state state);
/* The association is there: connects the queue. */
void link_start(struct lane *lane);
/* Ends the connection, if there is one; on_idle follows when it is gone. */
void link_stop(struct lane *lane);
/* For all lanes of a queue that is being removed. When they are idle, its loop is notified. */
void link_stop_all(struct volume_queue *queue);
/* The messages' handlers. */
void link_on_attached(struct loop_msg *msg);
void link_on_connected(struct loop_msg *msg);
void link_on_failed(struct loop_msg *msg);
void link_on_stopped(struct loop_msg *msg);
