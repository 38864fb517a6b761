/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log-linear histogram; see histogram.h. Row 0 has one step for each of 0..15 ns; row k has 16
 * equal steps for the octave from 2^(k+3) to 2^(k+4). The last step also counts longer durations;
 * max_ns is exact.
 */
#include <assert.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/histogram.h"

static_assert((HISTOGRAM_SUB & (HISTOGRAM_SUB - 1)) == 0, "an octave has a power of two of steps");

uint64_t histogram_step_end(unsigned step)
{
	unsigned row = step / HISTOGRAM_SUB, sub = step % HISTOGRAM_SUB;

	if (row == 0)
		return step;
	return ((uint64_t)(HISTOGRAM_SUB + sub + 1) << (row - 1)) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->counts[histogram_step(ns)]++;
	h->n++;
	h->sum_ns += ns;
	h->max_ns = MAX(h->max_ns, ns);
}

void histogram_add_step(struct histogram *h, unsigned step, uint64_t n)
{
	if (!n)
		return;
	check(step < ARRAY_LEN(h->counts));
	h->counts[step] += n;
	h->n += n;
	h->max_ns = MAX(h->max_ns, histogram_step_end(step));
}

uint64_t histogram_quantile(const struct histogram *h, double fraction)
{
	double rank = fraction * (double)h->n;
	uint64_t n_below = 0;

	check(fraction >= 0 && fraction <= 1);
	/* The last step has no upper end, so its quantile is the maximum. */
	for (unsigned i = 0; i < ARRAY_LEN(h->counts) - 1; i++) {
		n_below += h->counts[i];
		if (n_below && (double)n_below >= rank)
			return MIN(histogram_step_end(i), h->max_ns);
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
