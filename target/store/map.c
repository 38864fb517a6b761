/* SPDX-License-Identifier: BSD-3-Clause */
/* See map.h. */
#include "base/check.h"
#include "target/store/map.h"
#include "target/store/pool.h"
#include "target/store/step.h"
#include "target/store/thread.h"

bool backend_map_add(struct backend_map *map, uint64_t offset, uint64_t end)
{
	check(offset < end);
	if (map->n == BACKEND_MAP_RANGES)
		return false;
	map->ranges[map->n++] = (struct backend_range){offset, end - offset};
	return true;
}

static void hold_all(const struct backend_io *io)
{
	struct backend_map *map = io->buffer;

	map->n = 0;
	map->end = io->offset + io->length;
	backend_map_add(map, io->offset, map->end);
}

/* On a worker thread. That a store cannot tell is no failure of it. */
static int work_map(struct backend_io *io)
{
	struct backend_map *map = io->buffer;

	map->n = 0;
	map->end = io->offset;
	if (io->backend->ops->map(io->backend, io->offset, io->length, map) < 0)
		hold_all(io);
	return 0;
}

void backend_map_submit(struct backend *backend, struct backend_thread *thread,
			struct backend_io *io)
{
	check(io->length > 0);
	io->is_out = true;
	backend_take(backend, thread, io);
	if (backend->ops->map) {
		backend_pool_start(io, work_map);
		return;
	}
	hold_all(io);
	backend_skip(io, 0);
}
