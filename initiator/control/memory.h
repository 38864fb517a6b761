/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of front ends that a volume's I/O uses in place: registered with each association, beside
 * the slabs of the queues. A piece of memory is added and removed from any thread; control
 * registers all of it for a new association and takes it out of one that has ended. A mutex
 * guards both, because registering pins pages, which takes too long for the control loop.
 */
#pragma once

#include <pthread.h>

#include "base/list.h"
#include "initiator/io/volume_io.h"
#include "transport/device.h"

struct error;

struct volume_memories {
	/* Thread: any, under lock */
	pthread_mutex_t lock;
	struct list all; /* of struct volume_memory (node), each its owner's */
	/* borrowed: by a path's index, of its association; NULL: there is none */
	const struct domain *domains[VOLUME_PATHS_MAX];
	enum mr_access access;
	uint64_t n_bytes;
};

/* Control. deinit: nothing is in it. */
void memories_init(struct volume_memories *memories, bool has_windows);
void memories_deinit(struct volume_memories *memories);
/* Control: an association of the path with that index begins, before its lanes start. 0, or -errno
 * with *error: some of it cannot be registered, and none is. */
int memories_register(struct volume_memories *memories, unsigned path, const struct domain *domain,
		      struct error *error);
/* Control: all queue pairs of the association are gone. Accepts memory that is not registered. */
void memories_deregister(struct volume_memories *memories, unsigned path);
/* Any thread: volume_memory_add and volume_memory_remove (volume.h). */
int memories_add(struct volume_memories *memories, struct volume_memory *memory,
		 struct error *error);
void memories_remove(struct volume_memories *memories, struct volume_memory *memory);
