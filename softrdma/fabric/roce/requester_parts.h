/* SPDX-License-Identifier: BSD-3-Clause */
/* What requester.c (sending) and requester_answers.c (responses, timers) share. */
#pragma once

#include "softrdma/fabric/roce/requester.h"

static inline struct roce_request *roce_request_at(const struct roce_requester *r, uint64_t index)
{
	return &r->ring[index & r->mask];
}

static inline bool roce_is_atomic(const struct roce_request *q)
{
	return q->kind == ROCE_SWAP || q->kind == ROCE_ADD;
}

/* Whether only a response with data completes it. */
static inline bool roce_is_read(const struct roce_request *q)
{
	return q->kind == ROCE_READ || roce_is_atomic(q);
}

/* Whether packet i of a READ or atomic is the last that one request on the wire asks for. */
bool roce_ends_chunk(const struct roce_requester *r, const struct roce_request *q, uint32_t i);
/* What n packets from the i-th on count in a window. */
uint64_t roce_cost(const struct roce_requester *r, const struct roce_request *q, uint32_t i,
		   uint32_t n);
uint64_t roce_probe_interval(const struct roce_requester *r);
/* Both timers anew, or none if nothing is under way. */
void roce_requester_start_timers(struct roce_requester *r, uint64_t now);
/* Moves `acked` over the requests that are done. */
void roce_requester_settle(struct roce_requester *r);
