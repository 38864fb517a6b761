/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume in memory, in place of initiator/: one queue, which completes I/O in the next turn of
 * its loop. All functions run on that loop's thread. */
#pragma once

#include "initiator/control/volume.h"

enum {
	FUZZ_VOLUME_BYTES = 256 << 10,
	FUZZ_IO_BYTES = 16 << 10,
	FUZZ_BUFFERS = 8, /* few, so that clients wait for them */
	FUZZ_SLAB_BYTES = FUZZ_BUFFERS * FUZZ_IO_BYTES,
};

/* The one queue; it lives as long as the process. */
struct volume_queue *fuzz_volume_start(struct loop *loop);
/* From now on one I/O of `every` fails with this errno; 0: none does. */
void fuzz_volume_fail(int error, unsigned every);
/* Checks that no I/O is in flight, no buffer is taken, and no waiter is queued. */
void fuzz_volume_check_idle(void);
