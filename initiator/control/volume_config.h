/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a front end asks of a volume. Data of its owner, which volume_open copies. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uuid/uuid.h>

#include "base/addr.h"
#include "initiator/io/policy.h"

struct capture;

enum {
	VOLUME_NQN_MAX = 224, /* with NUL */
	VOLUME_QUEUES_MAX = 64,
	VOLUME_PATH_MAX = 1024,
	VOLUME_SLAB_MIN = 256 * 1024, /* bytes */
};

/* Before a write is sent again whose association was lost. */
enum volume_fence {
	VOLUME_FENCE_REQUIRE, /* proof that the old one is over (proof.c) */
	VOLUME_FENCE_OFF,     /* none: an old copy may land later */
};

struct volume_config {
	union addr address; /* of the portal */
	/* Further portals of the subsystem, each another path. */
	union addr others[VOLUME_PATHS_MAX - 1];
	unsigned n_others;
	/* Of each: the discovery controller that lists it; sa_family 0: a user names it. */
	union addr others_found_at[VOLUME_PATHS_MAX - 1];
	union addr found_by; /* the one that was asked first, and referred to the others of these */
	bool finds_paths;    /* by persistent discovery, while it is open (volume_discovery.c) */
	enum volume_policy policy;
	union addr host_address; /* source; sa_family 0: any */
	char subnqn[VOLUME_NQN_MAX];
	char hostnqn[VOLUME_NQN_MAX];
	uuid_t hostid;
	uint32_t nsid;
	unsigned n_queues;	/* asked for; the target may grant fewer */
	unsigned queue_size;	/* entries of a submission queue, 16..1024 */
	uint64_t slab_bytes;	/* registered memory of a queue */
	bool may_shrink_slab;	/* to what the limit of locked memory allows: see info */
	bool is_slab_whole;	/* all of it is registered at once, not as it is used */
	uint64_t keep_alive_ns; /* KATO; 0: none */
	uint64_t reconnect_delay_ns;
	uint64_t ctrl_loss_tmo_ns;    /* UINT64_MAX: try for ever */
	uint64_t fast_io_fail_tmo_ns; /* UINT64_MAX: off */
	bool fails_on_denial;	      /* DENIED and GONE are FAILED at once, as with Linux */
	bool has_windows; /* a key for each command alone: memory windows, remote invalidation */
	/* A command older than this resets the association, unless the target answers others, or
	 * Keep Alive; one that is ten times as old does in any case. */
	uint64_t io_timeout_ns;
	/* Secrets of DH-HMAC-CHAP, read again for each connection; "": none. By the first we prove
	 * ourselves, by the second the target must. */
	char secret_file[VOLUME_PATH_MAX], ctrl_secret_file[VOLUME_PATH_MAX];
	enum volume_fence fence;
	struct capture *capture;	  /* borrowed: gets the volume's commands; NULL: none */
	char state_file[VOLUME_PATH_MAX]; /* of proof_file.c, for a successor; "": none comes */
};
/* The documented defaults; addresses and names stay empty. */
void volume_config_init(struct volume_config *config);
/* The address of the volume, or of another path. */
bool volume_config_has_path(const struct volume_config *config, const union addr *address);
