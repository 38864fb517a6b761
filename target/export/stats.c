/* SPDX-License-Identifier: BSD-3-Clause */
/* See stats.h. */
#include <string.h>

#include "base/counter.h"
#include "target/export/namespace.h"
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

void stats_sum_namespace(const struct namespace *ns, struct namespace_counters *ret_counters,
			 struct namespace_stats *ret_stats)
{
	stats_sum_counters(ns, ret_counters);
	memset(ret_stats, 0, sizeof(*ret_stats));
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		for (unsigned j = 0; j < STATS_CLASSES; j++)
			io_stats_merge(&ret_stats->io[j], &ns->stats[i].io[j]);
}

void stats_sum_counters(const struct namespace *ns, struct namespace_counters *ret_counters)
{
	*ret_counters = (struct namespace_counters){0};
	for (unsigned i = 0; i < POLLERS_MAX; i++) {
		const struct namespace_counters *c = &ns->counters[i];

		ret_counters->n_in_flight += counter_get(&c->n_in_flight);
		ret_counters->n_reads += counter_get(&c->n_reads);
		ret_counters->n_writes += counter_get(&c->n_writes);
		ret_counters->read_blocks += counter_get(&c->read_blocks);
		ret_counters->written_blocks += counter_get(&c->written_blocks);
		ret_counters->n_flushes += counter_get(&c->n_flushes);
		ret_counters->n_errors += counter_get(&c->n_errors);
		ret_counters->n_media_errors += counter_get(&c->n_media_errors);
	}
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
