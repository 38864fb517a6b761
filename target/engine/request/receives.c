/* SPDX-License-Identifier: BSD-3-Clause */
/* See receives.h. */
#include <string.h>

#include "base/bits.h"
#include "target/engine/record/host.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/receives.h"
#include "target/engine/request/request_buffer.h"

enum {
	HOST_PERCENT = 50, /* of (free + already retained) */
};

void receive_retain(struct request *r, struct recv *recv)
{
	r->recv = recv;
	if (receive_is_shared(recv, r->queue))
		r->queue->pd->n_held++;
}

NOINLINE void receive_return(struct request *r)
{
	if (receive_is_shared(r->recv, r->queue))
		r->queue->pd->n_held--;
	if (r->kept)
		--*r->kept;
	recv_give(r->recv);
	r->recv = NULL;
	r->kept = NULL;
}

static_assert(HOST_PERCENT < 100, "a host leaves receives for others");

static void charge(struct request *r)
{
	struct queue *queue = r->queue;
	const struct poller_device *pd = queue->pd;
	unsigned *n_kept;

	if (!r->ns || !r->recv || r->kept || !receive_is_shared(r->recv, queue))
		return;
	n_kept = &queue->host->pollers[queue->poller->index].n_receives;
	r->kept = n_kept;
	++*n_kept;
	if (*n_kept > (pd->ring.n_max - pd->n_held + *n_kept) * HOST_PERCENT / 100)
		queue_fail(
			queue,
			"its host's waiting writes keep %u of %u receives: raise tuning.shared_receives",
			*n_kept, pd->ring.n_max);
}

void receive_keep(struct request *r)
{
	charge(r);
	if (r->pair)
		charge(r->pair);
}

void receive_spare(struct request *r)
{
	if (r->pair || !receive_is_scarce(r) || request_take_buffer(r) != BUFFER_TAKEN) {
		receive_keep(r);
		return;
	}
	r->is_direct = false;
	r->data = r->buffer.data;
	r->lkey = r->queue->lkey;
	memcpy(r->data, (char *)r->recv->data + r->sgl.offset, r->length);
	receive_return(r);
}
