/* SPDX-License-Identifier: BSD-3-Clause */
/* See namespace.h. */
#include <string.h>

#include "base/counter.h"
#include "target/export/namespace.h"

/* Names become UUIDs (version 5) within this name space. Never change it. */
static const uuid_t name_space = {0x8d, 0x1f, 0x5c, 0x3e, 0x52, 0xb7, 0x4b, 0x0e,
				  0x9a, 0x64, 0x0f, 0x2e, 0x71, 0xc9, 0xd3, 0x58};

void namespace_uuid_of_name(const char *name, uuid_t ret_uuid)
{
	uuid_generate_sha1(ret_uuid, name_space, name, strlen(name));
}

void namespace_sum_counters(const struct namespace *ns, struct namespace_counters *ret_counters)
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

void namespace_sum_stats(const struct namespace *ns, struct namespace_counters *ret_counters,
			 struct namespace_stats *ret_stats)
{
	namespace_sum_counters(ns, ret_counters);
	memset(ret_stats, 0, sizeof(*ret_stats));
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		for (unsigned j = 0; j < STATS_CLASSES; j++)
			io_stats_merge(&ret_stats->io[j], &ns->stats[i].io[j]);
}
