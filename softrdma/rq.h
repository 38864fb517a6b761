/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "dev.h"
#include "node.h"

/* The receiving side as its peers see it: take a receive, complete it, repair it. */

struct taken {
	struct seg_rqe *rqe;
	uint64_t seq;
	uint32_t pd; /* whose local keys the sge list uses */
};

/* All of these are called with the QP's lock held. */

/* Next receive of a QP, its own or its SRQ's. It stays there until rq_done. */
bool rq_take(struct peer *owner, uint32_t qp_slot, struct taken *ret);
/* Its completion has been pushed. */
void rq_done(struct peer *owner, uint32_t qp_slot, const struct taken *t);
/* The lock was inherited from a dead process: finish what it had begun. */
void rq_repair(struct peer *owner, uint32_t qp_slot);
/* The QP goes away: the rqe slot of its claimed SRQ receive, or UINT32_MAX. Owner only. */
uint32_t rq_unclaim(uint32_t qp_slot);
/* Flush with error: complete all receives as WR_FLUSH_ERR. Owner only. */
void rq_flush(uint32_t qp_slot);

/* Take a QP's lock, repairing if its holder died. */
void rq_lock(struct peer *owner, uint32_t qp_slot);
void rq_unlock(struct peer *owner, uint32_t qp_slot);
