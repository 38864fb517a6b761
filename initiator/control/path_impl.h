/* SPDX-License-Identifier: BSD-3-Clause */
/* A path from inside, and control's side of its lanes: see path.h and connection.h. */
#pragma once

#include "initiator/control/controller_impl.h"
#include "initiator/control/volume_config.h"

struct lane;
struct path;
struct volume;

/* The rules of moves: path.c. */
enum path_phase {
	PATH_IDLE,	 /* nothing is wanted of it */
	PATH_WAITING,	 /* for the next attempt */
	PATH_CONNECTING, /* an attempt */
	PATH_LIVE,
	PATH_RESETTING, /* the association is being taken apart */
};

/* Why a target that answers does not serve us. */
enum path_obstacle {
	OBSTACLE_NONE,
	OBSTACLE_DENIED, /* Connect was refused, for good (DNR) */
	OBSTACLE_GONE,	 /* there is no such namespace */
	OBSTACLE_OTHER,	 /* there is another namespace */
	OBSTACLE_UNFIT,	 /* the association or its device gives less than what is in use */
};

/* The wish of the administrator, or of discovery. It moves only forwards, but that one of discovery
 * which is lost while it leaves is kept. */
enum path_wish {
	PATH_WISH_KEEP,
	PATH_WISH_LEAVE, /* I/O takes others if it can */
	PATH_WISH_GO,	 /* no further attempt; it is freed when it is IDLE */
};

/* Notices of a path to its volume. None may free it from inside. */
struct path_ops {
	/* The association is there; 0: it becomes LIVE. -errno, with last_error: it goes. */
	int (*on_association)(struct path *path);
	void (*on_live)(struct path *path);
	/* It is not LIVE any more (last_error, or it is to go); its lanes are not stopped yet. */
	void (*on_lost)(struct path *path);
	/* An attempt failed (last_error, controller.cause). */
	void (*on_failed)(struct path *path);
	/* IDLE: nothing of it is left in the device. */
	void (*on_idle)(struct path *path);
	/* LIVE: the namespace was identified anew. */
	void (*on_namespace)(struct path *path);
	/* LIVE: controller.ana_state has changed. */
	void (*on_ana)(struct path *path);
};

struct path {
	/* Thread: control */
	struct volume *volume; /* borrowed */
	const struct path_ops *ops;
	unsigned index; /* in volume->paths */
	/* The discovery controller that listed it last; sa_family 0: a user names it. */
	union addr found_at;
	struct volume_config config; /* the volume's, with the address of this path */
	struct controller controller;
	struct list cqs; /* lane_cq.node, each owned by its users */

	enum path_wish wish;
	enum path_phase phase;
	uint64_t phase_since_ns;
	enum path_obstacle obstacle;
	unsigned n_refusals; /* of the obstacle, since it was met */
	unsigned n_attempts; /* since it was live for long enough */
	struct loop_timer attempt_timer;
	struct loop_call idle_call;
	struct loop_call gone_call;	 /* volume_paths.c: nothing uses it any more */
	uint64_t live_since_ns, lost_ns; /* 0: never */
	uint64_t n_lost;
	uint64_t n_answered; /* by lanes that are gone */
	struct error last_error;
	struct power_life life; /* of the last association whose target gave it */
	/* That Flush covers what it had brought when its last association ended; UINT64_MAX:
	 * that association is ending. See power.c. */
	uint64_t covered_by;

	/* proof.c: of the association that is live, or was last */
	struct proof_subject subject;
	uint32_t serial;
	bool may_change;       /* changes may have been sent in it */
	bool is_asked;	       /* a question of proof.c is out */
	uint64_t n_taken_back; /* commands that were in flight when its lanes were drained */
};

/* Discovery has added it, and may remove it. */
static inline bool path_is_found(const struct path *path)
{
	return path->found_at.sa.sa_family != 0;
}

enum connection_state {
	CONNECTION_IDLE,
	CONNECTION_RESOLVING,
	CONNECTION_ATTACHING,  /* the I/O loop takes cq and qp */
	CONNECTION_CONNECTING, /* the connection manager is at work */
	CONNECTION_STARTING,   /* the Connect command is out */
	CONNECTION_LIVE,
	CONNECTION_STOPPING, /* the I/O loop drains */
};

/* Notices of a connection to its path. */
struct connection_ops {
	/* The association is lost with this connection: everything has to go down. */
	void (*on_lost)(struct path *path, const struct error *error);
	/* The connection is IDLE, after a stop or an attempt that failed. */
	void (*on_idle)(struct path *path);
};

struct connection {
	/* Thread: control */
	const struct connection_ops *ops; /* borrowed: static */
	struct lane *lane;		  /* borrowed: the other side */
	enum connection_state state;
	struct cm_conn *conn;	    /* owned */
	struct loop_timer deadline; /* of one attempt to connect */
	struct loop_timer retry;    /* a queue that alone could not be connected */
	uint64_t down_since_ns;	    /* of such a queue; 0: none */
	unsigned n_retries;
};
