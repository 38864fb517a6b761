/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * By which paths a Flush goes. I/O loop only.
 *
 * A controller flushes what it has completed itself. So a Flush goes, one after the other, by each
 * path that has acknowledged writes since it was last flushed (unflushed.h), and by one path in any
 * case: what a target said of its cache when we connected may be no longer true of the namespace,
 * and where there is no cache a Flush costs little.
 *
 * A path that is lost, or inaccessible by ANA, is left out: its writes stay unflushed. They are
 * flushed when it is back; if its target has lost power meanwhile, the next Flush fails (power.c).
 */
#include "initiator/io/io_flush.h"

#include "initiator/io/choose.h"
#include "initiator/io/lane_room.h"

void io_flush_begin(struct volume_queue *queue, struct volume_io *io)
{
	io->flush_number = unflushed_begin(queue->unflushed);
}

/* The lane of the queue by the path of this index; NULL: it cannot be used now. */
static struct lane *usable_lane(struct volume_queue *queue, unsigned path)
{
	for (unsigned i = 0; i < queue->choice.n; i++) {
		struct lane *lane = queue->choice.attached[i];

		if (lane->limits.path == path && lane->state == LANE_LIVE && !lane->is_shunned &&
		    lane->rank != LANE_RANK_NONE)
			return lane;
	}
	return NULL;
}

/* The path is up, and may have writes that this Flush is for. */
static bool is_needed(const struct unflushed *unflushed, unsigned path, const struct volume_io *io)
{
	return unflushed_is_up(unflushed, path) &&
	       unflushed_needs(unflushed, path, io->flush_number);
}

/* Paths that can be used go first: while one is away, the others' writes become safe. */
struct io_way io_flush_way(struct volume_queue *queue, const struct volume_io *io)
{
	bool is_one_away = false;

	if (queue->lane->state != LANE_LIVE)
		return io_way_by(NULL);
	for (unsigned path = 0; path < VOLUME_PATHS_MAX; path++) {
		struct lane *lane;

		if (!is_needed(queue->unflushed, path, io))
			continue;
		lane = usable_lane(queue, path);
		if (lane)
			return io_way_by(lane_has_room(lane) ? lane : NULL);
		is_one_away = true;
	}
	if (is_one_away)
		return (struct io_way){.kind = IO_WAY_AWAY};
	return io_way_by(choose_lane(queue, 0));
}

bool io_flush_is_over(const struct lane *lane, const struct volume_io *io)
{
	for (unsigned path = 0; path < VOLUME_PATHS_MAX; path++)
		if (is_needed(lane->queue->unflushed, path, io))
			return false;
	return true;
}
