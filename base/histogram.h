/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log-linear histogram of durations: 16 steps an octave, so an error below 6.25 %. One writer, not
 * thread safe. Nothing fails.
 */
#pragma once

#include <stdint.h>

#include "base/bits.h"

enum {
	HISTOGRAM_SUB = 16,
	HISTOGRAM_OCTAVES = 40, /* up to 2^43 ns, more than two hours */
};

struct histogram {
	uint64_t counts[HISTOGRAM_OCTAVES * HISTOGRAM_SUB];
	uint64_t n, sum_ns, max_ns;
};

/* The step that counts this duration. */
static inline unsigned histogram_step(uint64_t ns)
{
	unsigned shift;

	if (ns < HISTOGRAM_SUB)
		return (unsigned)ns;
	shift = log2_floor(ns) - log2_floor(HISTOGRAM_SUB);
	if (shift + 1 >= HISTOGRAM_OCTAVES)
		return HISTOGRAM_OCTAVES * HISTOGRAM_SUB - 1;
	return (shift + 1) * HISTOGRAM_SUB + (unsigned)(ns >> shift) % HISTOGRAM_SUB;
}
/* The longest duration that this step counts (the last step also counts longer ones). */
uint64_t histogram_step_end(unsigned step);

/* One sample. The thread that owns h. */
void histogram_add(struct histogram *h, uint64_t ns);
/* Adds n samples of which only the step is known; max_ns becomes the end of the step at least. The
 * caller adds to sum_ns. */
void histogram_add_step(struct histogram *h, unsigned step, uint64_t n);
/* The value below which the fraction (0..1) of the samples lies; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);
void histogram_merge(struct histogram *into, const struct histogram *from);
