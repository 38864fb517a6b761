/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration of a volume, by its front end. Data of its owner, which volume_open copies. Any
 * thread.
 *
 * Each option that users give has a row in volume_option_table: the command line and --help of
 * rblk, the URI of librblk, the options in a volume's status and the completion are made of it.
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
	VOLUME_QUEUE_SIZE_MIN = 16,
	VOLUME_QUEUE_SIZE_MAX = 1024,
	VOLUME_OPTIONS = 21,
	VOLUME_OPTION_MAX = 1024, /* bytes of one as a text */
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
	/* For each: the discovery controller that lists it; sa_family 0: a user names it. */
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
	unsigned queue_size;	/* entries of a submission queue */
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
	uint64_t spin; /* of the loops of a front end, spin.h; the volume itself has none */
	struct capture *capture;	  /* borrowed: gets the volume's commands; NULL: none */
	char state_file[VOLUME_PATH_MAX]; /* of proof_file.c, for a successor; "": none comes */
};
/* The documented defaults; addresses and names stay empty. */
void volume_config_init(struct volume_config *config);
/* The address of the volume, or of another path. */
bool volume_config_has_path(const struct volume_config *config, const union addr *address);

enum volume_option_kind {
	VOLUME_OPTION_NUMBER, /* unsigned */
	VOLUME_OPTION_FLAG,   /* bool: "yes" or "1", "no" or "0" */
	VOLUME_OPTION_CHOICE, /* an enum: the index of one of choices */
	VOLUME_OPTION_TIME,
	VOLUME_OPTION_TIMEOUT, /* a time, or "never": UINT64_MAX */
	VOLUME_OPTION_SPIN,    /* as spin.h has it */
	VOLUME_OPTION_BUFFERS, /* bytes of all queues together, which becomes slab_bytes */
	VOLUME_OPTION_FILE,    /* its path, of VOLUME_PATH_MAX */
	VOLUME_OPTION_ADDRESS,
	VOLUME_OPTION_PATHS,   /* an address, one more of others */
	VOLUME_OPTION_HOSTNQN, /* for host_identity_load, as a text */
	VOLUME_OPTION_HOSTID,  /* the same */
};

struct volume_option {
	const char *name;
	enum volume_option_kind kind;
	size_t offset;	      /* in struct volume_config */
	const char *value;    /* in --help: "TIME"; NULL: a flag, or a choice */
	const char *standard; /* the default, as a text; NULL: none, or help has it */
	const char *help;
	uint64_t min, max; /* NUMBER, TIME (ns), BUFFERS (bytes); max 0: no limit */
	const char *const *choices;
	char letter; /* 'n' of -n; or 0 */
};

/* The order is that of --help. */
extern const struct volume_option volume_option_table[VOLUME_OPTIONS];

/* NULL: there is none. */
const struct volume_option *volume_option_find(const char *name);
/* Sets the option; not one of host_identity_load. 0; -ERANGE: out of bounds, or buffers that are
 * too small for n_queues; -EEXIST: an address that is a path already; or another -errno. */
int volume_option_parse(const struct volume_option *option, const char *text,
			struct volume_config *config);
/* The text that sets it so, in buf or static; "" for none. */
const char *volume_option_format(const struct volume_option *option,
				 const struct volume_config *config, char buf[VOLUME_OPTION_MAX]);
