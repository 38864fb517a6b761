/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of the counters of queues; see io_stats.h. */
#include <assert.h>

#include "base/bits.h"
#include "initiator/io/io_stats.h"

static_assert((int)VOLUME_CLASS_READ == VOLUME_READ && (int)VOLUME_CLASS_WRITE == VOLUME_WRITE,
	      "io_stats_add takes an operation for its class");

void io_stats_sum(const struct queue_io_stats *stats, struct volume_io_stats into[VOLUME_CLASSES])
{
	for (unsigned i = 0; i < VOLUME_CLASSES; i++) {
		struct histogram *h = &into[i].latency;

		for (unsigned j = 0; j < ARRAY_LEN(h->counts); j++) {
			uint64_t n = counter_get(&stats->of[i].counts[j]);

			h->counts[j] += n;
			h->n += n;
		}
		h->sum_ns += counter_get(&stats->of[i].sum_ns);
		into[i].n_bytes += counter_get(&stats->of[i].n_bytes);
	}
}
