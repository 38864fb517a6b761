/* SPDX-License-Identifier: BSD-3-Clause */
/* The namespace of a command: its use, and the command's range there. Poller of the queue. */
#pragma once

#include "base/counter.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"
#include "target/export/guard/guard.h"
#include "target/export/namespace.h"

/* Counts one use of the namespace, whose memory lives at least until the use ends. Returns the
 * counters, for namespace_give. */
static inline struct namespace_counters *namespace_take(struct queue *queue, struct namespace *ns)
{
	struct namespace_counters *counters = &ns->counters[queue->poller->index];

	counter_add(&counters->n_in_flight, 1);
	return counters;
}
/* Accepts NULL. */
static inline void namespace_give(struct namespace_counters *counters)
{
	if (counters)
		counter_add(&counters->n_in_flight, UINT64_MAX);
}

/* The command uses the namespace until it ends, or until request_give_namespace. */
static inline void request_take_namespace(struct request *r, struct namespace *ns)
{
	r->ns = ns;
	r->counters = namespace_take(r->queue, ns);
	pass_begin(&r->pass, ns->guard);
	if (!r->is_fresh)
		pass_show(&r->pass);
}
/* Accepts a request without one. */
static inline void request_give_namespace(struct request *r)
{
	if (!r->ns)
		return;
	whole_give(r->hold);
	r->hold = 0;
	pass_end(&r->pass);
	namespace_give(r->counters);
	r->ns = NULL;
}

/* ---- the range of a command that has one (COMMAND_HAS_RANGE) ---- */

/* The first block, as the host wrote it: io_find_blocks checks it. */
static inline uint64_t request_slba(const struct request *r)
{
	return get_le32(r->sqe.cdw10) | (uint64_t)get_le32(r->sqe.cdw11) << 32;
}
/* How many: on the wire 0 means 1. */
static inline uint32_t request_n_blocks(const struct request *r)
{
	return (get_le32(r->sqe.cdw12) & NVME_RW_NLB_MASK) + 1;
}
/* In bytes. The request must have a namespace (r->ns). */
static inline uint64_t request_offset(const struct request *r)
{
	return request_slba(r) << r->ns->block_shift;
}
static inline uint64_t request_n_bytes(const struct request *r)
{
	return (uint64_t)request_n_blocks(r) << r->ns->block_shift;
}
