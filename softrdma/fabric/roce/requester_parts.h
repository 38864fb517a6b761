/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by requester.c (sending) and requester_answers.c (responses, timers). */
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
