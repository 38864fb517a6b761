/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a namespace command: the counters of its outcome. Poller of the queue. */
#pragma once

#include "target/engine/request/request_namespace.h"

/* Counts a successful Read of n_bytes, which are n_blocks. */
static inline void request_count_read(struct request *r, uint32_t n_bytes, uint32_t n_blocks)
{
	struct namespace_counters *counters = r->counters;
	struct queue_counters *mine = &r->queue->counters;

	counter_add(&mine->n_reads, 1);
	counter_add(&mine->read_bytes, n_bytes);
	counter_add(&counters->n_reads, 1);
	counter_add(&counters->read_blocks, n_blocks);
}

/* Ends a command of a namespace: counts the outcome. Returns the next state, RESPOND. */
enum request_state request_settle(struct request *r, enum nvme_status status);
