/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume in memory, in place of initiator/: one queue, answered in the next turn of its loop. */
#pragma once

#include "initiator/control/volume.h"

enum {
	FUZZ_VOLUME_BYTES = 256 << 10,
	FUZZ_IO_BYTES = 16 << 10,
	FUZZ_BUFFERS = 8, /* few: clients wait for them */
	FUZZ_SLAB_BYTES = FUZZ_BUFFERS * FUZZ_IO_BYTES,
};

/* The one queue; it lives as long as the process. */
struct volume_queue *fuzz_volume_start(struct loop *loop);
/* From now on one of so many fails with this errno; 0: none does. */
void fuzz_volume_fail(int error, unsigned every);
/* Nothing is in flight, no buffer is taken, nobody waits for one. */
void fuzz_volume_check_idle(void);
