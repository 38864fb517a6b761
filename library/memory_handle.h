/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the program: what it has registered, and the cache. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "library/handle.h"

struct rblk_memory {
	struct volume_memory memory;
	struct rblk_volume *volume; /* borrowed; NULL: it is unregistered */
	struct list node;	    /* in volume->memories, or ended_memories */
};

/* The range does not end within the address space. */
static inline bool memory_wraps(const void *base, size_t n_bytes)
{
	uintptr_t end;

	return __builtin_add_overflow((uintptr_t)base, n_bytes, &end);
}

/* Frees all handles, after the last I/O. */
void memory_free_all(struct rblk_volume *volume);
/* Fills part->io.memory and part->held; n_bytes is not 0. 0 or -errno. */
int memory_attach(struct rblk_volume *volume, void *buffer, size_t n_bytes, struct io_part *part);
/* The I/O has ended: lets go of part->held, which is not NULL. */
void memory_detach(struct rblk_volume *volume, struct io_part *part);
