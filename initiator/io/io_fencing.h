/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes that wait for proof, on an I/O queue: see io_fencing.c. I/O loop. */
#pragma once

#include "initiator/io/queue_impl.h"

/* Repeated after a later change it would undo that one: neither Read nor Flush. */
static inline bool io_is_change(const struct volume_io *io)
{
	return io->op != VOLUME_READ && io->op != VOLUME_FLUSH;
}

/* It must not be sent now: it overlaps with a change that waits, or the volume is closed. */
bool io_fencing_holds(const struct volume_queue *queue, const struct volume_io *io);
/* Puts a change behind those that wait. */
void io_fencing_add(struct volume_queue *queue, struct volume_io *io);
/* A change that was in flight when the association of this serial was lost: true if it waits for
 * proof now. */
bool io_fencing_take(struct volume_queue *queue, struct volume_io *io, uint32_t serial);
/* Cancelled. True: it was never sent, and is out of the list. False: it may have been. */
bool io_fencing_remove(struct volume_queue *queue, struct volume_io *io);
/* Mode QUEUE_FAIL: all of them fail. I/O that was sent is still without proof: control knows. */
void io_fencing_fail(struct volume_queue *queue);
/* The set of associations without proof has changed. */
void io_fencing_look(struct volume_queue *queue);
