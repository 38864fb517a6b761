/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume in memory, for tests of front ends: implements initiator/control/volume.h without a
 * target. Each queue belongs to the thread of its loop, as with the real volume. The environment
 * configures it:
 *
 *   VOLUME_RAM_SIZE, _BLOCK_SIZE, _MAX_IO, _SLAB, _QUEUES   numbers (bytes)
 *   VOLUME_RAM_DELAY_US      each I/O takes a random time up to this, so that they overtake
 *                            each other
 *   VOLUME_RAM_ERROR_AT      a byte offset: I/O that touches its block fails with EIO
 *   VOLUME_RAM_NO_ZEROES, _NO_TRIM, _NO_FLUSH, _READ_ONLY   set: without that ability
 *   VOLUME_RAM_GROW_TO       SIGUSR1 sets the size to this
 *   VOLUME_RAM_CACHE         set: SIGUSR2 undoes what neither a flush nor FUA has made durable
 *   VOLUME_RAM_HOLD          set: I/O never completes, as if the target had vanished, with writes
 *                            that it has not flushed
 *
 * Misuse of the interface stops the program: unaligned or too large I/O, buffers that are not the
 * queue's, I/O outstanding when a queue is removed.
 */
#pragma once

#include "initiator/control/volume.h"
