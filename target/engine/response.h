/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses on their way. Everything here runs on the queue's poller. */
#pragma once

#include "base/bits.h"
#include "target/engine/request.h"

/* What is left of a request once its response is posted: the device still reads from
 * here. */
struct response {
	/* Thread: poller */
	struct queue *queue;
	struct response *next_free;
	struct work send_work;
	struct nvme_cqe *cqe; /* inline_cqe, or registered memory */
	struct nvme_cqe inline_cqe;
	unsigned flags;			     /* of its SEND: QP_INLINE for inline_cqe */
	struct buffer buffer;		     /* owned: data of a read on its way */
	uint64_t sending_ns;		     /* since when data is on its way; 0: none is */
	uint64_t timed_from;		     /* ticks at that time, of a sampled Read; else 0 */
	struct namespace_counters *counters; /* of where its data comes from, or NULL */
	struct pass pass;		     /* so is it still inside */
	whole_hold hold;		     /* and holds its blocks */
};

/* Data goes to the host ahead of it. */
static inline bool response_has_data(const struct request *r)
{
	return r->direction == DIRECTION_C2H && r->length && r->status == NVME_OK;
}
/* Slots that it takes: one, and one for the data. */
static inline unsigned response_n_slots(const struct request *r)
{
	return response_has_data(r) ? 2 : 1;
}
/* Slots are there. Takes over the buffer and the namespace, when there is data. */
void response_post(struct request *r, bool has_data);

/* Send-queue slots of a queue of n_entries. A response takes one or, with its data, two: of 32
 * commands all are under way at once, of more half, and hosts answer 28 of a chain before its last,
 * signaled one is over. */
static inline unsigned queue_send_depth(unsigned n_entries)
{
	return MAX(n_entries / 2, MIN(2 * n_entries, 64)) + 28;
}
