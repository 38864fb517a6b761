/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives that commands retain because their data arrived in them. Poller thread.
 *
 * All I/O queues of a poller share one ring of receives. It has one receive for each command that
 * the queues may have outstanding, up to tuning.shared_receives. At that limit a retained receive
 * is unavailable to every queue. So once half of the ring is retained, data is copied to a buffer
 * and the receive goes back. A command that finds no buffer and has to wait may retain its receive
 * while its host has no more than its share: half of (free + already retained). So any number of
 * hosts leave receives for Connect and for the next host.
 *
 * A host that exceeds its share cannot be slowed down, and its writes must not fail because rblkd
 * lacks receives. So the queue is disconnected.
 */
#pragma once

#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"

static inline bool receive_is_shared(const struct recv *recv, const struct queue *queue)
{
	return recv->ring == &queue->pd->ring;
}

/* Its receive is of the shared ring, and few are left there. */
static inline bool receive_is_scarce(const struct request *r)
{
	const struct poller_device *pd = r->queue->pd;

	return r->recv && receive_is_shared(r->recv, r->queue) && pd->n_held > pd->ring.n_max / 2;
}

/* The command's data arrived in this receive: retains it. */
void receive_retain(struct request *r, struct recv *recv);
/* The retained receive goes back, and is no longer charged. */
void receive_return(struct request *r);
/* The same; accepts a command that retains none. */
static inline void receive_release(struct request *r)
{
	if (r->recv)
		receive_return(r);
}

/* For a command that will wait in line: copies its data if receives are scarce and a buffer is
 * free; otherwise receive_keep. */
void receive_spare(struct request *r);
/* For a command that waits: charges its receive, and that of its pair, to its host. Beyond the
 * host's share the queue fails. */
void receive_keep(struct request *r);
