/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume as its front ends see it: state (reconnect.c has the drawing), info, status. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uuid/uuid.h>

#include "base/addr.h"
#include "base/error.h"
#include "initiator/control/volume_fencing.h"
#include "initiator/io/volume_io.h"

enum volume_state {
	VOLUME_CONNECTING, /* the first time */
	VOLUME_LIVE,
	VOLUME_RECONNECTING, /* I/O is held, and so in the next two */
	VOLUME_DENIED,	     /* the target answers, but says that it never takes us (DNR) */
	VOLUME_GONE,	     /* the target has no such namespace any more */
	VOLUME_FAILED,	     /* ctrl_loss_tmo passed, or the contents are others */
	VOLUME_CLOSING,
};
/* I/O is held until the association is back. */
static inline bool volume_state_holds(enum volume_state state)
{
	return state == VOLUME_RECONNECTING || state == VOLUME_DENIED || state == VOLUME_GONE;
}

struct volume_info {
	uint64_t size_bytes;
	uint32_t block_size;
	uint64_t slab_bytes;	     /* registered memory of a queue: as configured, or less */
	uint32_t max_io_bytes;	     /* of one read or write: MDTS, slab and device */
	uint32_t max_transfer_bytes; /* of one command: MDTS and device */
	uint32_t max_compare_bytes;  /* of a compare and write; 0: the target has none */
	bool is_read_only;
	bool has_flush; /* volatile write cache present when connecting; Flush is always sent */
	bool has_write_zeroes;
	bool has_trim; /* Dataset Management, deallocate */
	bool reads_zero_after_trim;
	uuid_t uuid; /* all zero when the target gives none */
	uint8_t nguid[16];
	char serial[21], model[41], firmware[9];
	unsigned n_queues_granted;
};

enum volume_path_state {
	VOLUME_PATH_IDLE, /* the volume has failed, or not come to it so far */
	VOLUME_PATH_CONNECTING,
	VOLUME_PATH_LIVE,
	VOLUME_PATH_LOST,   /* it is tried again */
	VOLUME_PATH_DENIED, /* as VOLUME_DENIED and VOLUME_GONE; tried again, too */
	VOLUME_PATH_GONE,
	VOLUME_PATH_OTHER, /* it leads to another namespace */
	VOLUME_PATH_UNFIT, /* it has too few queues, or too little of something else: last_error */
	VOLUME_PATH_LEAVING, /* it is being removed */
};

struct volume_path_status {
	union addr address;
	bool is_found; /* by discovery, which removes it, too; else a user names it */
	enum volume_path_state state;
	uint64_t state_since_ns; /* clock_ns() */
	bool wants_queues;	 /* its coming or going waits for the loops of queues */
	bool is_used;		 /* new I/O may take it: live, and of the best ANA state */
	const char *ana_state;	 /* "optimized"; NULL: not known, no ANA */
	uint16_t cntlid;
	char device[64]; /* RDMA device in use */
	unsigned n_queues_live;
	uint64_t n_in_flight;
	uint64_t n_commands; /* that it answered */
	uint64_t latency_ns; /* of small commands, as the policies see it; 0: not measured */
	uint64_t n_losses;
	bool has_unflushed; /* it has acknowledged writes that no Flush covers yet */
	struct error last_error;
};

enum {
	VOLUME_SERVICES_MAX = 8, /* discovery controllers of a volume */
};

/* A discovery controller of a volume, as front ends see it. */
struct volume_service_status {
	union addr address;
	const char *state;	 /* "connecting", "live", "lost" or "refused" */
	uint64_t state_since_ns; /* clock_ns() */
	bool is_referral;	 /* another one refers to it */
	bool has_log;		 /* it was read, of this address; the rest is of the last one */
	uint64_t generation;	 /* GENCTR */
	uint64_t changed_ns;	 /* clock_ns(): when the last change was read */
	unsigned n_portals;	 /* of the volume's subsystem */
	struct error last_error;
};

struct volume_status {
	enum volume_state state;
	uint64_t state_since_ns; /* clock_ns() */
	unsigned n_queues_live;
	uint64_t n_reconnects;
	uint64_t backed_bytes; /* of the slabs: what is in use, and registered while connected */
	uint64_t n_held;       /* I/O waiting for the association */
	uint64_t n_in_flight;
	bool has_unflushed; /* on any path */
	/* with memory windows: keys that the target invalidated with its answer, or rblk did */
	uint64_t n_invalidated, n_revoked;
	uint64_t gives_up_in_ns; /* while reconnecting; UINT64_MAX: never */
	uint16_t cntlid;
	char device[64];       /* RDMA device in use */
	const char *ana_state; /* "optimized"; NULL: not known, no ANA */
	uint32_t ana_group;
	struct error last_error;
	struct volume_io_figures io_errors;
	struct volume_fencing fencing;
	/* cntlid, device and ANA above are those of the best path */
	unsigned n_paths, n_paths_live;
	struct volume_path_status paths[VOLUME_PATHS_MAX];
	unsigned n_services; /* discovery controllers, that of an address of the user's first */
	struct volume_service_status services[VOLUME_SERVICES_MAX];
};

struct volume_stats {
	struct volume_io_stats of[VOLUME_CLASSES];
	uint64_t n_errors[VOLUME_CLASSES]; /* I/O that failed, for good */
};

struct volume_callbacks {
	/* On the control loop. The first connect succeeded: info is valid; or failed: see error. */
	void (*on_opened)(void *context, const struct error *error /* NULL: success */);
	void (*on_state)(void *context, enum volume_state state);
	/* Size, read-only or trim ability changed while live (namespace attribute notice). */
	void (*on_changed)(void *context);
	/* volume_close is done: nothing of the volume is used any more. */
	void (*on_closed)(void *context);
	/* A path is live, lost or removed: see wants_queues of its status. NULL is accepted. */
	void (*on_path)(void *context);
};
