/* SPDX-License-Identifier: BSD-3-Clause */
/* Log-linear histogram of durations: 16 steps an octave, error below 6.25 %; one writer. */
#pragma once

#include <stdint.h>

enum {
	HISTOGRAM_SUB = 16,
	HISTOGRAM_OCTAVES = 40, /* up to 2^43 ns, more than two hours */
};

struct histogram {
	uint64_t counts[HISTOGRAM_OCTAVES * HISTOGRAM_SUB];
	uint64_t n, sum_ns, max_ns;
};

void histogram_add(struct histogram *h, uint64_t ns);
/* The value below which the fraction (0..1) of the samples lies; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double fraction);
void histogram_merge(struct histogram *into, const struct histogram *from);
