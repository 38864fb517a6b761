/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive queues in shared memory as the senders use them: take a receive, complete it, repair it.
 *
 * The caller runs in any process and holds the lock of the receiving queue pair, unless a line adds
 * otherwise. `owner` is the process of that queue pair and stays the caller's. A receive belongs to
 * the taker from sr_rq_take() to sr_rq_done(). A process may die in between: the next holder of the
 * lock then calls sr_rq_repair().
 */
#pragma once

#include "softrdma/fabric/peer.h"

struct sr_taken {
	struct seg_rqe *rqe;
	uint64_t seq;
	uint32_t pd;  /* of the owner of the receive: the domain of its local keys */
	uint8_t kind; /* enum seg_cqe_kind, and slot: as its completion has them */
	uint16_t slot;
};

/* Names the receive in its completion. */
static inline void sr_taken_name(const struct sr_taken *t, struct seg_cqe *e)
{
	e->seq = t->seq;
	e->slot = t->slot;
	e->kind = t->kind;
	e->rqe_slot = (uint16_t)t->rqe->slot;
}

/* Next receive of a QP, its own or its SRQ's. It stays there until sr_rq_done. */
bool sr_rq_take(struct sr_peer *owner, uint32_t qp_slot, struct sr_taken *ret);
/* The completion of the receive has been pushed: the receive is used up. */
void sr_rq_done(struct sr_peer *owner, uint32_t qp_slot, const struct sr_taken *t);
/* The lock was inherited from a dead process: finishes what that process had begun. */
void sr_rq_repair(struct sr_peer *owner, uint32_t qp_slot);
/* The QP is reset or destroyed: the rqe slot of its claimed SRQ receive, or UINT32_MAX. Owner
 * only. */
uint32_t sr_rq_unclaim(uint32_t qp_slot);
/* Completes all receives as WR_FLUSH_ERR. Owner only. */
void sr_rq_flush(uint32_t qp_slot);

/* Takes a QP's lock, and repairs its queue if the last holder died. */
void sr_rq_lock(struct sr_peer *owner, uint32_t qp_slot);
void sr_rq_unlock(struct sr_peer *owner, uint32_t qp_slot);
