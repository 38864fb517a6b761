/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of rblk bench, as a table or JSON. Thread: main. */
#pragma once

#include "base/histogram.h"
#include "base/output.h"

enum {
	BENCH_SAMPLES_MAX = 128,
};

/* The result of one depth. */
struct bench_result {
	const char *test; /* randread, randwrite, read or write */
	struct histogram latency;
	uint64_t n_done, n_errors;
	uint64_t min_done, max_done; /* of one queue: is the target fair? */
	double seconds, iops, mb_per_s, cpu_us_per_io;
	size_t block_bytes;
	unsigned depth, n_queues, n_threads;
	unsigned n_samples; /* of the rate, over the time */
	struct {
		double at_s, iops;
	} samples[BENCH_SAMPLES_MAX];
};

/* Prints n results, at least one, of ascending depth. EXIT_OK, or EXIT_FAILED if I/O failed, with a
 * line that says how many of how many. */
int bench_results_print(const char *program, const struct bench_result *results, unsigned n,
			enum output output);
