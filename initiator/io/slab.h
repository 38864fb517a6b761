/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registered memory of one I/O queue: data buffers for its front end, from one
 * mapping that lives as long as the queue. It is registered anew for each association
 * (link.c), so a remote key dies with the queue pair it was given to.
 */
#pragma once

#include "base/buddy.h"
#include "base/loop.h"

enum {
	SLAB_UNIT = 4096,
};

struct slab {
	/* Thread: I/O loop; made and freed by control */
	uint8_t *memory; /* owned mapping */
	size_t n_bytes;
	struct buddy buddy;
	unsigned n_taken;
	struct list waiters; /* loop_call.node, in order */
};

/* max_block is a power of 2. 0 or -ENOMEM. */
int slab_init(struct slab *slab, size_t n_bytes, size_t max_block);
/* Accepts a zeroed one. No buffer is taken. */
void slab_deinit(struct slab *slab);

/* Anonymous memory that a child process does not get: registered pages must not become
 * copy-on-write. NULL when there is none. */
void *slab_map(size_t n_bytes);
void slab_unmap(void *memory, size_t n_bytes); /* accepts NULL */
