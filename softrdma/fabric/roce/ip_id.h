/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the IPv4 ID that makes a checksum right is one that its sender would have chosen: without
 * this a random damage passes in one of 65536 cases. Senders set 0, number the packets of a burst
 * from 0, or count: Linux by one for each packet and at most one for each millisecond without. A
 * sender with several CPUs numbers its packets before it orders them, so an ID may be a little
 * behind the highest one. A peer that does none of this is found out by eight right packets in a
 * row, and any ID is taken from it. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	ROCE_ID_BURST = 128,
	ROCE_ID_STRIDE = 1024,
	ROCE_ID_BEHIND = 256,
	ROCE_ID_STRANGE = 8,
};

struct roce_ip_id {
	uint16_t last;
	bool has_last;
	uint8_t n_strange; /* in a row; ROCE_ID_STRANGE: no more checks */
	uint64_t last_ms;
};

/* Only for a packet that counts by its number: others could tell wrong IDs. */
static inline bool roce_ip_id_fits(struct roce_ip_id *s, uint16_t id, uint64_t now_ms)
{
	uint64_t elapsed = now_ms - s->last_ms;
	uint64_t most = ROCE_ID_STRIDE + (elapsed < 0x10000 ? elapsed : 0x10000);
	bool is_behind = s->has_last && (uint16_t)(s->last - id) <= ROCE_ID_BEHIND;
	bool fits = id < ROCE_ID_BURST || !s->has_last || is_behind ||
		    (uint16_t)(id - s->last) <= most;

	if (s->n_strange == ROCE_ID_STRANGE)
		return true;
	if (!is_behind && (id >= ROCE_ID_BURST || !s->has_last)) {
		s->last = id;
		s->last_ms = now_ms;
		s->has_last = true;
	}
	s->n_strange = fits ? 0 : s->n_strange + 1;
	return fits || s->n_strange == ROCE_ID_STRANGE;
}
