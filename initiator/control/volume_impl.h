/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume from inside: volume.c (public face), reconnect.c (phases), link.c and queue.c
 * (queues), proof.c (old writes), volume_info.c (what is known). Each calls only those behind it;
 * what goes back up is link_ops, controller_ops and on_over. A volume has one association at a
 * time; several paths would be several controllers, each with a link a queue.
 */
#pragma once

#include "initiator/control/controller.h"
#include "initiator/control/link.h"
#include "initiator/control/memory.h"
#include "initiator/io/io_errors.h"
#include "initiator/control/proof.h"
#include "initiator/io/queue.h"
#include "initiator/control/volume.h"

/* The rules of moves: reconnect.c. */
enum volume_phase {
	PHASE_OPENING, /* the first association is being made, or awaits its next attempt */
	PHASE_UNDOING, /* an attempt at it has failed, and is being taken apart */
	PHASE_LIVE,
	PHASE_RESETTING,  /* the association is being taken apart */
	PHASE_WAITING,	  /* for the next attempt */
	PHASE_CONNECTING, /* an attempt */
	PHASE_FAILED,
	PHASE_CLOSING,
};

/* What becomes of I/O, and of the volume, while there is no association. */
enum volume_outlook {
	OUTLOOK_HOLDS,	    /* I/O is held, attempts go on */
	OUTLOOK_FAILS_FAST, /* fast_io_fail_tmo has passed: I/O fails, attempts go on */
	OUTLOOK_GIVES_UP,   /* no further attempt: see last_error */
};

/* Why a target that answers does not serve us. */
enum volume_obstacle {
	OBSTACLE_NONE,
	OBSTACLE_DENIED, /* Connect was refused, for good (DNR) */
	OBSTACLE_GONE,	 /* there is no such namespace */
};

struct volume {
	/* Thread: control */
	struct loop *control; /* borrowed */
	struct volume_config config;
	struct volume_callbacks callbacks;
	void *context;
	struct cm *cm; /* owned */
	struct controller controller;
	struct list queues; /* volume_queue.node, owned */
	struct list cqs;    /* queue_cq.node, each owned by its users */
	uint64_t used_qids;

	unsigned phase; /* enum volume_phase */
	uint64_t phase_since_ns;
	enum volume_obstacle obstacle;
	unsigned n_refusals; /* of the obstacle, since it was met */
	unsigned outlook;    /* enum volume_outlook */
	struct loop_timer attempt_timer, loss_timer, fast_timer;
	struct loop_call stopped_call, report_call;
	/* The last association of a closing volume is gone; frees the volume. */
	void (*on_over)(struct volume *volume);
	uint64_t live_since_ns, lost_ns;
	uint64_t open_until_ns; /* transient refusals of the first attempt are tried until then */
	unsigned n_attempts;

	struct volume_info info; /* valid once it was live */
	struct identify_ids ids;
	struct power_life life; /* of the last association whose target gave it */
	uint64_t n_reconnects;
	uint64_t n_invalidated, n_revoked;		 /* of queues that are gone */
	struct volume_io_stats io_stats[VOLUME_CLASSES]; /* of queues that are gone */
	struct error last_error;

	struct volume_io_errors io_errors; /* Thread: any */
	struct unflushed unflushed;	   /* Thread: any */
	struct unproven unproven;	   /* Thread: any */
	struct proof proof;
	struct volume_memories memories; /* Thread: any */

	struct list extents_waiting;	      /* of struct volume_extents: to be asked, in order */
	struct volume_extents *extents_asked; /* the target has it; or NULL */
};

/* ---- volume_info.c ---- */

/* Registered memory of a queue for its I/O. */
size_t volume_slab_bytes(const struct volume_config *config);
/* What queue may do in the association that is live now. */
void volume_fill_limits(struct volume *volume, struct queue_limits *limits);
/* Of front ends, connected or not. */
unsigned volume_n_queues(const struct volume *volume);
/* Takes over what the controller found out; true when front ends must be notified. */
bool volume_learn(struct volume *volume);
/* 0, or -errno with *error: the memory of all queues cannot be registered. */
int volume_try_memory(struct volume *volume, struct error *error);
/* 0, or -errno with *error: the device has not as many memory windows as all queues want. */
int volume_check_windows(const struct volume *volume, struct error *error);
/* "subnqn/nsid" for log records. */
#define VOLUME_FMT    "%s/%u"
#define VOLUME_ARG(v) (v)->config.subnqn, (v)->config.nsid

/* ---- reconnect.c ---- */

extern const struct controller_ops reconnect_controller_ops;
extern const struct link_ops reconnect_link_ops;

/* Begins the first attempt; callbacks.on_opened has its outcome. */
void reconnect_open(struct volume *volume);
int reconnect_reopen(struct volume *volume); /* as volume_reopen */
/* Ends the association; on_over follows, never from inside. */
void reconnect_close(struct volume *volume);
/* A queue was removed: that may be the last thing that an end waits for. */
void reconnect_on_queue_gone(struct volume *volume);
enum volume_state reconnect_state(const struct volume *volume);

/* It was never live. */
static inline bool volume_is_opening(const struct volume *volume)
{
	return volume->phase == PHASE_OPENING || volume->phase == PHASE_UNDOING;
}
