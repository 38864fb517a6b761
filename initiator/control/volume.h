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
#include "initiator/control/volume_paths.h"
#include "initiator/control/volume_status.h"
#include "initiator/io/volume_io.h"

struct volume;

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
