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
	uint32_t pd; /* whose local keys the sge list uses */
};

/* Next receive of a QP, its own or its SRQ's. It stays there until sr_rq_done. */
bool sr_rq_take(struct sr_peer *owner, uint32_t qp_slot, struct sr_taken *ret);
/* Its completion has been pushed. */
void sr_rq_done(struct sr_peer *owner, uint32_t qp_slot, const struct sr_taken *t);
/* The lock was inherited from a dead process: finish what it had begun. */
void sr_rq_repair(struct sr_peer *owner, uint32_t qp_slot);
/* The QP goes away: the rqe slot of its claimed SRQ receive, or UINT32_MAX. Owner only. */
uint32_t sr_rq_unclaim(uint32_t qp_slot);
/* Flush with error: complete all receives as WR_FLUSH_ERR. Owner only. */
void sr_rq_flush(uint32_t qp_slot);

/* Take a QP's lock, repairing if its holder died. */
void sr_rq_lock(struct sr_peer *owner, uint32_t qp_slot);
void sr_rq_unlock(struct sr_peer *owner, uint32_t qp_slot);
