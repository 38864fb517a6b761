/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume from inside: volume.c (public face), volume_discovery.c (paths by discovery),
 * volume_paths.c (the public face of paths), reconnect.c (its phases), proof.c
 * (old writes), path.c (the phases of a path), link.c and lane.c (its queues), volume_info.c (what
 * is known). Each calls only those behind it; what goes back up is path_ops, link_ops,
 * controller_ops, on_over and gone_call.
 * The volume has the I/O; a path has an association at a time, with a lane in each queue.
 */
#pragma once

#include "initiator/control/controller.h"
#include "initiator/control/link.h"
#include "initiator/control/memory.h"
#include "initiator/control/path.h"
#include "initiator/io/io_errors.h"
#include "initiator/control/proof.h"
#include "initiator/io/queue.h"
#include "initiator/control/volume.h"
#include "initiator/control/volume_discovery.h"

/* The rules of moves: reconnect.c. */
enum volume_phase {
	PHASE_OPENING, /* there was no association so far */
	PHASE_SERVING, /* there was one; what there is now, the paths know */
	PHASE_FAILED,
	PHASE_CLOSING,
};

/* What becomes of I/O, and of the volume, while there is no association. */
enum volume_outlook {
	OUTLOOK_HOLDS,	    /* I/O is held, attempts go on */
	OUTLOOK_FAILS_FAST, /* fast_io_fail_tmo has passed: I/O fails, attempts go on */
	OUTLOOK_GIVES_UP,   /* no further attempt: see last_error */
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

enum {
	VOLUME_BY_PATH_MAX = ADDR_STRING_MAX + 8,
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
