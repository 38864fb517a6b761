/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "softrdma/fabric/peer.h"

/* The receiving side as its peers see it: take a receive, complete it, repair it. */

struct sr_taken {
	struct seg_rqe *rqe;
	uint64_t seq;
	uint32_t pd; /* whose local keys the sge list uses */
};

/* All of these are called with the QP's lock held. */

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
