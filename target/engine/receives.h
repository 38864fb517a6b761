/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that commands keep because their data is in them. I/O queues share a poller's, which has
 * as many as they may have commands, but tuning.shared_receives at most: then one that is kept is
 * missed by all. So data is copied to a buffer when more than half of these are kept; who finds no
 * buffer and has to wait may keep its receive as long as its host has no more than its share of
 * them, half of what is free and its own. Any number of hosts leave something for Connect and for
 * the next one. Nothing can be taken back from a host that sends more, and its writes must not fail
 * for a want of ours: its queue ends. Everything here runs on the poller.
 */
#pragma once

#include "target/engine/queue.h"
#include "target/engine/request.h"

static inline bool receive_is_shared(const struct recv *recv, const struct queue *queue)
{
	return recv->ring == &queue->pd->ring;
}

/* It has one of those that all share, and they are few. */
static inline bool receive_is_scarce(const struct request *r)
{
	const struct poller_device *pd = r->queue->pd;

	return r->recv && receive_is_shared(r->recv, r->queue) && pd->n_held > pd->ring.n_max / 2;
}

/* It will wait for its turn: its data is copied if receives are few and there is a buffer; then
 * receive_keep. */
void receive_spare(struct request *r);
/* It waits, and what it and its pair keep counts as its host's; beyond a share its queue fails. */
void receive_keep(struct request *r);
