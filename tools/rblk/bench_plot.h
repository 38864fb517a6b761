/* SPDX-License-Identifier: BSD-3-Clause */
/* The picture of rblk bench (--plot). Thread: main. */
#pragma once

#include <stdio.h>

#include "tools/rblk/bench_result.h"

enum {
	BENCH_DEPTHS_MAX = 12, /* 1, 2, 4 ... 1024, and the one that was asked for */
};

/* The depths to measure for a picture: powers of two below the last, and the last. Returns how
 * many.
 */
unsigned bench_plot_depths(unsigned last, unsigned ret_depths[BENCH_DEPTHS_MAX]);
/* Latency over depth, of all results, and the rate over time, of the last one, as SVG. 0 or -EIO;
 * the caller closes f. */
int bench_plot_write(FILE *f, const char *title, const struct bench_result *results, unsigned n);
