/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume from inside: volume.c (public face), reconnect.c (phases), link.c and
 * queue.c (queues). A volume has one association at a time; several paths would be
 * several controllers, each with a link a queue.
 */
#pragma once

#include "initiator/control/controller.h"
#include "initiator/control/link.h"
#include "initiator/io/io_errors.h"
#include "initiator/io/queue.h"
#include "initiator/control/volume.h"

enum volume_phase {
	PHASE_OPENING, /* the first association is being made */
	PHASE_LIVE,
	PHASE_RESETTING,  /* the association is being taken apart */
	PHASE_WAITING,	  /* for the next attempt */
	PHASE_CONNECTING, /* an attempt */
	PHASE_FAILED,
	PHASE_CLOSING,
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
	bool is_taking_down; /* controller and links are being stopped */
	bool must_fail;	     /* no further attempt: see last_error */
	bool fails_fast;     /* fast_io_fail_tmo has passed */
	struct loop_timer attempt_timer, loss_timer, fast_timer;
	struct loop_call stopped_call, report_call;
	uint64_t live_since_ns, lost_ns;
	uint64_t open_until_ns; /* transient refusals of the first attempt are tried until then */
	unsigned n_attempts;

	struct volume_info info; /* valid once it was live */
	struct identify_ids ids;
	struct power_life life; /* of the last association whose target gave it */
	uint64_t n_reconnects;
	uint64_t n_invalidated, n_revoked; /* of queues that are gone */
	struct error last_error;

	struct volume_io_errors io_errors; /* Thread: any */
	struct unflushed unflushed;	   /* Thread: any */
};

/* ---- volume.c ---- */

size_t volume_slab_bytes(const struct volume_config *config);
/* What queue may do in the association that is live now. */
void volume_fill_limits(struct volume *volume, struct queue_limits *limits);
unsigned volume_n_queues(const struct volume *volume);
/* Takes over what the controller found out; true when a front end must hear of a
 * change. */
bool volume_learn(struct volume *volume);
/* 0, or -errno with *error: the memory of all queues cannot be registered. */
int volume_try_memory(struct volume *volume, struct error *error);
/* 0, or -errno with *error: the device has not as many memory windows as all queues want. */
int volume_check_windows(const struct volume *volume, struct error *error);
void volume_free(struct volume *volume);
/* "subnqn/nsid" for log records. */
#define VOLUME_FMT    "%s/%u"
#define VOLUME_ARG(v) (v)->config.subnqn, (v)->config.nsid

/* ---- reconnect.c ---- */

extern const struct controller_ops reconnect_controller_ops;

void reconnect_open(struct volume *volume);
int reconnect_reopen(struct volume *volume); /* as volume_reopen */
void reconnect_close(struct volume *volume);
/* A live link or controller failed: everything goes down, and is built up again. */
void reconnect_lost(struct volume *volume, const struct error *error);
/* A link became idle, or its queue is gone. */
void reconnect_on_link_idle(struct volume *volume);
enum volume_state reconnect_state(const struct volume *volume);
