/* SPDX-License-Identifier: BSD-3-Clause */
/* Responses that are being sent. Poller of the queue. The queue owns them and uses them again. */
#pragma once

#include "base/bits.h"
#include "target/engine/request/request.h"

/* The part of a request that the device still reads after its response is posted. */
struct response {
	/* Thread: poller */
	struct queue *queue;
	struct response *next_free;
	struct work send_work;
	struct nvme_cqe *cqe; /* inline_cqe, or registered memory */
	struct nvme_cqe inline_cqe;
	unsigned flags;			     /* of its SEND: QP_INLINE for inline_cqe */
	struct buffer buffer;		     /* owned: data of a read that is being sent */
	uint64_t sending_ns;		     /* since when data is being sent; 0: it is not */
	uint64_t timed_from;		     /* the same in ticks, of a sampled Read; else 0 */
	struct namespace_counters *counters; /* of the namespace with the data, or NULL */
	struct pass pass;		     /* keeps the read admitted */
	whole_hold hold;		     /* and holds its blocks */
};

static_assert(sizeof(struct nvme_cqe) <= QP_INLINE_MAX, "responses may be inline");

/* Whether data precedes the response. */
static inline bool response_has_data(const struct request *r)
{
	return r->direction == DIRECTION_C2H && r->length && r->status == NVME_OK;
}
/* Send-queue slots: one, and one for the data. */
static inline unsigned response_n_slots(const struct request *r)
{
	return response_has_data(r) ? 2 : 1;
}
/* The caller has checked for free slots. With data, takes over buffer and namespace. */
void response_post(struct request *r, bool has_data);
