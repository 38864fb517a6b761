/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts and latencies of the I/O of one queue. The I/O loop writes them with plain stores; control
 * reads them at any time, so a sum of several is not of one moment. A latency is the difference of
 * two times of the loop, which reads the clock once a turn: no call for each I/O.
 */
#pragma once

#include <stdint.h>

#include "base/counter.h"
#include "base/histogram.h"
#include "initiator/io/volume_io.h"

struct queue_io_stats {
	struct {
		uint64_t n_bytes, sum_ns;
		uint64_t counts[HISTOGRAM_OCTAVES * HISTOGRAM_SUB];
	} of[VOLUME_CLASSES];
};

/* I/O loop: io has succeeded, at now_ns of the loop. */
static inline void io_stats_add(struct queue_io_stats *stats, const struct volume_io *io,
				uint64_t now_ns)
{
	unsigned class = io->op < VOLUME_FLUSH ? io->op : VOLUME_CLASS_OTHER;
	uint64_t ns = now_ns - io->submit_ns;

	counter_add(&stats->of[class].counts[histogram_step(ns)], 1);
	counter_add(&stats->of[class].sum_ns, ns);
	if (class != VOLUME_CLASS_OTHER)
		counter_add(&stats->of[class].n_bytes, io->length);
}

/* Any thread. Adds what was counted so far to a sum that is the caller's own. */
void io_stats_sum(const struct queue_io_stats *stats, struct volume_io_stats into[VOLUME_CLASSES]);
