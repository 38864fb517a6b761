/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a store may hold data; the rest of it reads as zeroes (backend.h, ops->map). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct backend_io;
struct backend_thread;

enum {
	BACKEND_MAP_RANGES = 120, /* so an answer is bounded, and so is the work for it */
};

/* Bytes of the namespace. */
struct backend_range {
	uint64_t offset, length; /* length > 0 */
};

struct backend_map {
	uint64_t end; /* nothing is known from here on */
	unsigned n;
	struct backend_range ranges[BACKEND_MAP_RANGES]; /* ascending, apart from each other */
};

/* For ops->map. Adds a range; false when there is no room. */
bool backend_map_add(struct backend_map *map, uint64_t offset, uint64_t end);
/*
 * Poller. Fills io->buffer, a struct backend_map, for io->length bytes (not 0) from io->offset on;
 * then io->done with 0, never from inside. A store that cannot tell, or fails to, may hold data
 * everywhere. Each answer was true at some moment of the call: a write that completed before the
 * call is seen.
 */
void backend_map_submit(struct backend *backend, struct backend_thread *thread,
			struct backend_io *io);
