/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffer of a command, in the name of its queue, its namespace and its host. Poller of the
 * queue. */
#pragma once

#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"

/* Where its buffer comes from: data can never starve admin commands and Connect. */
static inline struct arena *request_arena(const struct request *r)
{
	bool is_admin = r->queue->qid == 0 || r->sqe.opcode == NVME_FABRICS;

	return is_admin ? &r->queue->poller->admin : &r->queue->poller->data;
}
/* Tries to take the buffer that the request needs: r->n_buffer bytes, or else r->length. */
enum buffer_result request_take_buffer(struct request *r);
/* For BUFFER_NEVER, a defect: breaks the queue. Returns the state to continue with. */
enum request_state request_no_buffer(struct request *r);
/* The request that is first in line for a buffer; NULL: none waits. */
static inline struct request *request_first_waiter(const struct arena *arena)
{
	struct fair_entry *entry = fair_first(&arena->waiters);

	return entry ? container_of(entry, struct request, turn) : NULL;
}
