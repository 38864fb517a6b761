/* SPDX-License-Identifier: BSD-3-Clause */
/* See stats.h. */
#include <string.h>

#include "base/counter.h"
#include "target/export/stats.h"

void io_stats_merge(struct io_stats *into, const struct io_stats *from)
{
	into->n_errors += counter_get(&from->n_errors);
	into->sum_ns += counter_get(&from->sum_ns);
	into->n_sampled += counter_get(&from->n_sampled);
	for (unsigned i = 0; i < STAGES; i++)
		into->stage_ns[i] += counter_get(&from->stage_ns[i]);
	for (unsigned i = 0; i < STATS_STEPS; i++)
		into->counts[i] += counter_get(&from->counts[i]);
}

uint64_t io_stats_count(const struct io_stats *stats)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < STATS_STEPS; i++)
		n += stats->counts[i];
	return n;
}

void io_stats_histogram(const struct io_stats *stats, struct histogram *ret_histogram)
{
	*ret_histogram = (struct histogram){.sum_ns = stats->sum_ns};
	for (unsigned i = 0; i < STATS_STEPS; i++)
		histogram_add_step(ret_histogram, STATS_FIRST_STEP + i, stats->counts[i]);
}

const char *stats_class_name(enum stats_class class)
{
	static const char *const names[] = {
		[STATS_READ] = "read", [STATS_WRITE] = "write", [STATS_OTHER] = "other"};

	return names[class];
}

const char *stats_stage_name(enum stats_stage stage)
{
	static const char *const names[] = {[STAGE_RECEIVE] = "receive",
					    [STAGE_FETCH] = "fetch",
					    [STAGE_BACKEND] = "backend",
					    [STAGE_SEND] = "send"};

	return names[stage];
}
