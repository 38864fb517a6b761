/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-linear histogram of durations: 16 steps an octave, error below 6.25 %; one writer. */
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
/* The longest duration that is counted in this step (the last step has longer ones, too). */
uint64_t histogram_step_end(unsigned step);

void histogram_add(struct histogram *h, uint64_t ns);
/* n samples of which only the step is known: they count as the longest of it. The sum is the
 * caller's. */
void histogram_add_step(struct histogram *h, unsigned step, uint64_t n);
/* The value below which the fraction (0..1) of the samples lies; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);
void histogram_merge(struct histogram *into, const struct histogram *from);
