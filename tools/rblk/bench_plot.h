/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of rblk bench, and their picture (--plot). Thread: main. */
#pragma once

#include <json-c/json.h>
#include <stdio.h>

#include "base/histogram.h"

enum {
	BENCH_SAMPLES_MAX = 128,
	BENCH_DEPTHS_MAX = 12, /* 1, 2, 4 ... 1024, and the one that was asked for */
};

/* The result of one depth. */
struct bench_result {
	struct histogram latency;
	uint64_t n_done, n_errors;
	uint64_t min_done, max_done; /* of one queue: is the target fair? */
	double seconds, iops, mb_per_s, cpu_us_per_io;
	unsigned depth, n_queues;
	unsigned n_samples; /* of the rate, over the time */
	struct {
		double at_s, iops;
	} samples[BENCH_SAMPLES_MAX];
};

/* The depths to measure for a picture: powers of two below the last, and the last. Returns how
 * many.
 */
unsigned bench_plot_depths(unsigned last, unsigned ret_depths[BENCH_DEPTHS_MAX]);
/* Latency over depth, of all results, and the rate over time, of the last one, as SVG. 0 or -EIO;
 * the caller closes f. */
int bench_plot_write(FILE *f, const char *title, const struct bench_result *results, unsigned n);
/* Adds a number with one digit behind the point. */
void bench_add_number(struct json_object *o, const char *key, double value);
/* Adds "depths" and "rate" to the object of the last result: the same figures for scripts. */
void bench_plot_add_json(struct json_object *whole, const struct bench_result *results, unsigned n);
