/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume from inside: volume.c (public face), volume_discovery.c (paths by discovery),
 * volume_paths.c (the public face of paths), reconnect.c (its phases), proof.c (old writes), path.c
 * (the phases of a path), connection.c and lane.c (its queues), volume_info.c (what is known). Each
 * calls only those behind it; what goes back up is path_ops, connection_ops, controller_ops,
 * on_over and gone_call. The volume has the I/O; a path has an association at a time, with a lane
 * in each queue (path_impl.h).
 */
#pragma once

#include "initiator/control/declined.h"
#include "initiator/control/identify.h"
#include "initiator/control/memory.h"
#include "initiator/control/proof_log.h"
#include "initiator/control/volume_config.h"
#include "initiator/control/volume_status.h"
#include "initiator/io/io_errors.h"
#include "initiator/io/io_stats.h"
#include "initiator/io/unflushed.h"
#include "initiator/io/unproven.h"

struct cm;
struct discovery_service;
struct path;
struct volume_extents;

/* The rules of moves: reconnect.c. */
enum volume_phase {
	PHASE_OPENING, /* there was no association so far */
	PHASE_SERVING, /* there was one; what there is now, the paths know */
	PHASE_FAILED,
	PHASE_CLOSING,
};

/* The outlook of I/O, and of the volume, while there is no association. */
enum volume_outlook {
	OUTLOOK_HOLDS,	    /* I/O is held, attempts go on */
	OUTLOOK_FAILS_FAST, /* fast_io_fail_tmo has passed: I/O fails, attempts go on */
	OUTLOOK_GIVES_UP,   /* no further attempt: see last_error */
};

/* The states of a predecessor; the rules of moves: proof.c. */
enum predecessor_state {
	PREDECESSOR_NEW,     /* there is a controller that was not asked */
	PREDECESSOR_ASKING,  /* its reset is requested */
	PREDECESSOR_LATER,   /* to be requested again, at look_ns */
	PREDECESSOR_DYING,   /* its reset goes on; the log page is read at look_ns */
	PREDECESSOR_READING, /* the log page is being read */
	PREDECESSOR_REFUSED, /* only time can prove it, or another path */
};

struct predecessor {
	struct proof_subject subject;
	uint32_t serial;
	uint64_t lost_ns; /* at the latest; the hold counts from here */
	enum predecessor_state state;
	uint64_t look_ns, delay_ns;
	struct path *source; /* borrowed: was asked last; NULL: none */
	unsigned refused_by; /* a bit for each path whose controller does not help */
};

/* The proofs of a volume: proof.c. */
struct proof {
	struct predecessor predecessors[UNPROVEN_MAX];
	unsigned n;
	uint32_t serial;    /* of the youngest association */
	struct path *asked; /* borrowed: live, and has not answered; NULL: no question is out */
	bool has_file;	    /* state_file names predecessors */
	struct loop_timer timer;
	uint64_t since_ns; /* when the first of the predecessors was lost */
	uint64_t n_by[FENCING_WAYS];
	enum fencing_way last_way;
};

/* The discovery of a volume: volume_discovery.c. */
struct volume_discovery {
	/* The first is asked by an address of the user's; the others are referred to. Owned; NULL:
	 * none. One that ends stays until it is freed. */
	struct discovery_service *services[VOLUME_SERVICES_MAX];
	struct loop_timer retry; /* something could not be done at the last look */
	struct declined declined;
	bool has_warned; /* that a path is left out, since the last that was added */
};

struct volume {
	/* Thread: control */
	struct loop *control; /* borrowed */
	struct volume_config config;
	struct volume_callbacks callbacks;
	void *context;
	struct cm *cm;			      /* owned */
	struct list queues;		      /* volume_queue.node, owned */
	struct path *paths[VOLUME_PATHS_MAX]; /* owned: by index; NULL: none */
	uint64_t used_qids;

	enum volume_phase phase;
	enum volume_state told; /* to front ends */
	uint64_t state_since_ns;
	enum volume_outlook outlook;
	struct loop_timer loss_timer, fast_timer;
	struct loop_call over_call, report_call;
	/* It serves for the first time. */
	void (*on_serving)(struct volume *volume);
	/* The last association of a closing volume is gone; frees the volume. */
	void (*on_over)(struct volume *volume);
	uint64_t live_since_ns, lost_ns; /* of any path; 0: it was never live */
	uint64_t open_until_ns; /* transient refusals of the first attempt are tried until then */

	struct volume_info info; /* valid once it was live */
	struct identify_ids ids;
	uint64_t n_reconnects;
	uint64_t n_invalidated, n_revoked;		 /* of queues that are gone */
	struct volume_io_stats io_stats[VOLUME_CLASSES]; /* of queues that are gone */
	struct error last_error;

	struct volume_io_errors io_errors; /* Thread: any */
	struct unflushed unflushed;	   /* Thread: any */
	struct unproven unproven;	   /* Thread: any */
	struct proof proof;
	struct volume_memories memories; /* Thread: any */
	struct volume_discovery discovery;

	struct list extents_waiting;	      /* of struct volume_extents: to be asked, in order */
	struct volume_extents *extents_asked; /* a target has it; or NULL */
	struct path *extents_path;	      /* through which */
};

/* "subnqn/nsid" for log records. */
#define VOLUME_FMT    "%s/%u"
#define VOLUME_ARG(v) (v)->config.subnqn, (v)->config.nsid
#define for_each_path(it, volume)                                                                  \
	for (struct path *it = NULL, *const *it##_at = (volume)->paths;                            \
	     it##_at < (volume)->paths + VOLUME_PATHS_MAX; it##_at++)                              \
		if ((it = *it##_at))

/* It was never live. */
static inline bool volume_is_opening(const struct volume *volume)
{
	return volume->phase == PHASE_OPENING;
}

/* No service is left. */
static inline bool volume_discovery_is_over(const struct volume_discovery *discovery)
{
	for (unsigned i = 0; i < VOLUME_SERVICES_MAX; i++)
		if (discovery->services[i])
			return false;
	return true;
}
