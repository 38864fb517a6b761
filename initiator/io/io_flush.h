/* SPDX-License-Identifier: BSD-3-Clause */
/* By which paths a Flush goes: see io_flush.c. I/O loop. */
#pragma once

#include "initiator/io/queue_impl.h"

/* The way that the oldest held I/O can take now. */
enum io_way_kind {
	IO_WAY_LANE, /* be sent on this lane, which has room */
	IO_WAY_FULL, /* stay: an answer, or a lane that becomes live, makes room and asks again */
	IO_WAY_AWAY, /* wait for a path that it needs, which is not connected or refuses I/O */
};

struct io_way {
	enum io_way_kind kind;
	struct lane *lane; /* of IO_WAY_LANE */
};

/* lane: one with room, or NULL where there is none. */
static inline struct io_way io_way_by(struct lane *lane)
{
	return (struct io_way){lane ? IO_WAY_LANE : IO_WAY_FULL, lane};
}

/* A Flush is submitted. */
void io_flush_begin(struct volume_queue *queue, struct volume_io *io);
struct io_way io_flush_way(struct volume_queue *queue, const struct volume_io *io);
/* It has succeeded on the lane; false: it has to go on another one, too. */
bool io_flush_is_over(const struct lane *lane, const struct volume_io *io);
