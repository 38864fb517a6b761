/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of a namespace command, and the counters of its outcome. Poller of the queue. */
#pragma once

#include "target/engine/queue.h"
#include "target/engine/request.h"

/* ---- the range of a command that has one (COMMAND_HAS_RANGE) ---- */

static inline uint64_t request_slba(const struct request *r)
{
	return get_le32(r->sqe.cdw10) | (uint64_t)get_le32(r->sqe.cdw11) << 32;
}
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

/* ---- outcomes ---- */

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
