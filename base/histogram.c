/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log-linear histogram; see histogram.h. Row 0 counts 0..15 ns one by one; row k counts
 * the octave from 2^(k+3) to 2^(k+4) in 16 equal steps. What is longer goes to the last
 * step; max_ns is exact.
 */
#include "base/bits.h"
#include "base/histogram.h"

static unsigned step_of(uint64_t ns)
{
	unsigned shift;

	if (ns < HISTOGRAM_SUB)
		return (unsigned)ns;
	shift = log2_floor(ns) - log2_floor(HISTOGRAM_SUB);
	if (shift + 1 >= HISTOGRAM_OCTAVES)
		return HISTOGRAM_OCTAVES * HISTOGRAM_SUB - 1;
	return (shift + 1) * HISTOGRAM_SUB + (unsigned)(ns >> shift) % HISTOGRAM_SUB;
}

/* The largest value that is counted in this step. */
static uint64_t step_end(unsigned step)
{
	unsigned row = step / HISTOGRAM_SUB, sub = step % HISTOGRAM_SUB;

	if (row == 0)
		return step;
	return ((uint64_t)(HISTOGRAM_SUB + sub + 1) << (row - 1)) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->counts[step_of(ns)]++;
	h->n++;
	h->sum_ns += ns;
	h->max_ns = MAX(h->max_ns, ns);
}

uint64_t histogram_quantile(const struct histogram *h, double fraction)
{
	double rank = fraction * (double)h->n;
	uint64_t n_below = 0;

	/* The last step has no upper end of its own, so it gives the maximum too. */
	for (unsigned i = 0; i < ARRAY_LEN(h->counts) - 1; i++) {
		n_below += h->counts[i];
		if (n_below && (double)n_below >= rank)
			return MIN(step_end(i), h->max_ns);
	}
	return h->max_ns;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	for (unsigned i = 0; i < ARRAY_LEN(into->counts); i++)
		into->counts[i] += from->counts[i];
	into->n += from->n;
	into->sum_ns += from->sum_ns;
	into->max_ns = MAX(into->max_ns, from->max_ns);
}
