/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a lane can send more now. I/O loop. */
#pragma once

#include "initiator/io/lane_impl.h"

/* For n commands. With windows each takes two slots, and one more is kept back for each key that
 * the target may leave to us. */
static inline bool lane_has_slots(const struct lane *lane, unsigned n)
{
	unsigned n_needed = lane->limits.has_windows ? lane->table.n_lent + 3 * n : n;

	return qp_n_free(&lane->qp) >= n_needed;
}

/* For one command more. */
static inline bool lane_has_room(const struct lane *lane)
{
	return lane->state == LANE_LIVE && lane->table.n_free &&
	       lane->table.n_in_flight < lane->limits.max_in_flight && lane_has_slots(lane, 1);
}

/* For both commands of a pair: max_in_flight is 2 or more. */
static inline bool lane_has_room_for_pair(const struct lane *lane)
{
	return lane_has_room(lane) && lane->table.n_free >= 2 &&
	       lane->table.n_in_flight + 2 <= lane->limits.max_in_flight && lane_has_slots(lane, 2);
}
