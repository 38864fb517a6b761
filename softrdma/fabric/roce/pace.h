/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How fast an unreliable connection sends. Nothing is acknowledged, so no window holds it back: a
 * burst as large as a small receive buffer, then a byte a nanosecond (8 Gbit/s), so that a receiver
 * has a chance. Pure; the caller holds the queue pair's lock.
 */
#pragma once

#include <stdint.h>

enum {
	ROCE_PACE_BURST = 128 << 10, /* bytes */
};

/* Zeroed, it is a full burst. */
struct roce_pace {
	uint64_t spent, at_ns; /* bytes of the burst that were gone then */
};

/* The bytes that may leave now. */
static inline uint64_t roce_pace_room(struct roce_pace *p, uint64_t now)
{
	uint64_t passed = now - p->at_ns;

	p->spent -= passed < p->spent ? passed : p->spent;
	p->at_ns = now;
	return p->spent < ROCE_PACE_BURST ? ROCE_PACE_BURST - p->spent : 0;
}

static inline void roce_pace_spend(struct roce_pace *p, uint64_t bytes)
{
	p->spent += bytes;
}
