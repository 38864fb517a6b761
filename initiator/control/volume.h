/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator's face to its front ends (the NBD bridge, benchmarks): one attached namespace.
 *
 * Threads. The control loop owns the volume and its paths: controllers, reconnecting, keep alive.
 * Each volume_queue belongs to the I/O loop it was made for: its slab of memory, and for each path
 * a queue pair and commands. No lock between them; they talk by loop messages.
 *
 * I/O is never lost: when a path is lost, what was in flight there is sent again, by another path
 * or the same one, once its old queue pair is dead. While there is no path, I/O is held, until
 * ctrl_loss_tmo_ns has passed. A write is sent again only when the target is proven to be done with
 * its first copy (proof.c). Only then does it complete, with -EIO (or at once after
 * fast_io_fail_tmo_ns).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uuid/uuid.h>

#include "base/error.h"
#include "base/loop.h"
#include "initiator/control/volume_config.h"
#include "initiator/control/volume_fencing.h"
#include "initiator/control/volume_paths.h"
#include "initiator/io/policy.h"
#include "initiator/io/volume_io.h"
#include "initiator/control/volume_state.h"

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

struct volume;
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

/* Control thread. Starts connecting; then on_opened. -errno only for resources; copies config. */
int volume_open(struct loop *control, const struct volume_config *config,
		const struct volume_callbacks *callbacks, void *context,
		struct volume **ret_volume);
/* Control thread. Every queue must have been removed. Shuts the controller down, then on_closed. */
void volume_close(struct volume *volume);
/* Control thread. A volume that has FAILED after it was live tries again, as after any loss:
 * ctrl_loss_tmo begins anew, and I/O is held. -EINVAL in any other state. */
int volume_reopen(struct volume *volume);
/* Control thread; copies. Other threads keep their own copy of the info. */
void volume_get_info(const struct volume *volume, struct volume_info *ret_info);
void volume_get_status(struct volume *volume, struct volume_status *ret_status);
/* Since the volume was opened, of queues that are gone, too. */
void volume_get_stats(struct volume *volume, struct volume_stats *ret_stats);

/* ---- memory of front ends ---------------------------------------------------------- */

/* Any thread, until volume_close. The memory stays mapped until volume_memory_remove; memory is
 * embedded in its owner, which fills base and n_bytes. 0, or -errno with *error: mr_open's. Pages
 * stay in memory meanwhile, and count towards RLIMIT_MEMLOCK. */
int volume_memory_add(struct volume *volume, struct volume_memory *memory, struct error *error);
/* Any thread. No I/O uses it. */
void volume_memory_remove(struct volume *volume, struct volume_memory *memory);

/* ---- I/O --------------------------------------------------------------------------- */

struct volume_queue;

/* Control thread, after on_opened. io_loop may be running already in its own thread. I/O can be
 * submitted from the loop's thread at once: it is held until the queue pair is connected. At
 * most info.n_queues_granted queues exist at a time (-EUSERS). */
int volume_queue_add(struct volume *volume, struct loop *io_loop, struct volume_queue **ret_queue);
/* Control thread. No I/O may be outstanding, no buffer taken. on_removed runs on the control
 * loop, after which the io_loop no longer knows of the queue. */
void volume_queue_remove(struct volume_queue *queue, void (*on_removed)(void *context),
			 void *context);

/* Any thread. One word, for people and -o json. */
const char *volume_path_state_name(enum volume_path_state state);
const char *volume_state_name(enum volume_state state);
