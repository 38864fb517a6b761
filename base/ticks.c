/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the length of a tick: reads both clocks now and a little later. An interrupt between the
 * two readings spoils a pair, so each pair is the closest one of several.
 */
#include "base/ticks.h"

enum {
	MEASURE_NS = 4000000,
	TRIES = 16,
};

uint64_t ticks_rate = 1ULL << TICKS_SHIFT;

struct pair {
	uint64_t ticks, ns;
};

static struct pair read_both(void)
{
	struct pair best = {0};
	uint64_t closest = UINT64_MAX;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = ticks_now(), ns = clock_ns(), after = ticks_now();

		if (after - before < closest) {
			closest = after - before;
			best = (struct pair){.ticks = before + closest / 2, .ns = ns};
		}
	}
	return best;
}

void ticks_init(void)
{
	struct pair from = read_both(), to;

	clock_sleep_ns(MEASURE_NS);
	to = read_both();
	/* No processor's counter is slower than 1 MHz or faster than 1 THz. */
	if (to.ticks > from.ticks && (to.ns - from.ns) < 1000 * (to.ticks - from.ticks) &&
	    (to.ticks - from.ticks) < 1000 * (to.ns - from.ns))
		ticks_rate = ((to.ns - from.ns) << TICKS_SHIFT) / (to.ticks - from.ticks);
}
