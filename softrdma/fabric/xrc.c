/* SPDX-License-Identifier: BSD-3-Clause */
/* Which shared receive queue a message is for; see xrc.h. */
#include "softrdma/fabric/xrc.h"

const struct seg_srq *sr_xrc_find(const struct seg *s, const struct seg_qp *q, uint32_t number)
{
	uint32_t slot = seg_qp_slot(s, number); /* SRQs are numbered as queue pairs are */
	const struct seg_srq *srq;

	if (slot >= SEG_MAX_SRQ)
		return NULL;
	srq = &s->srq[slot];
	if (!atomic_load(&srq->live) || !srq->cq || srq->number != number ||
	    !seg_domain_is(&srq->domain, &q->domain))
		return NULL;
	return srq;
}

bool sr_xrc_aim(struct seg *s, struct seg_qp *q, uint32_t number)
{
	const struct seg_srq *srq = sr_xrc_find(s, q, number);

	if (srq)
		q->pd = srq->pd;
	return srq;
}

bool sr_xrc_aim_receive(struct seg *s, struct seg_qp *q, uint32_t number)
{
	const struct seg_srq *srq = sr_xrc_find(s, q, number);
	uint32_t slot;

	if (!srq)
		return false;
	q->pd = srq->pd;
	slot = (uint32_t)(srq - s->srq);
	if (q->srq == slot + 1)
		return true;
	if (atomic_load(&q->claim))
		return false;
	q->srq = slot + 1;
	q->recv_cq = srq->cq - 1;
	return true;
}
