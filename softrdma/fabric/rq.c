/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive queues in shared memory, as the engine of a sender uses them.
 *
 *   own RQ   rqe stays at the head until its completion has been pushed, then
 *            head++ . Only the holder of the QP's lock moves the head.
 *   SRQ      many QPs pop: under the SRQ's lock the popper writes its slot into
 *            `popper`, the position into its QP's `claim`, then moves the head.
 *            The claim is cleared once the completion has been pushed.
 *
 * The sender may die between any two of these stores. The process that inherits the lock finds out
 * how far it came: a completion in the CQ (or already polled) for this position means that the
 * receive is used up; a claim beyond the SRQ's head was never popped. So no receive is lost and
 * none completes twice.
 */
#include "softrdma/fabric/rq.h"

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/completion.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/peer.h"

static struct seg_srq *srq_of(struct seg *s, const struct seg_qp *q)
{
	return q->srq ? &s->srq[q->srq - 1] : NULL;
}

/* A claim holds the position and the slot: the order ring may move on before it ends. */
static uint64_t claim_of(struct seg *s, const struct seg_srq *srq, uint64_t pos)
{
	const uint32_t *order = seg_at(s, srq->order);

	return (pos + 1) << 16 | order[pos & srq->mask];
}

static uint64_t claim_pos(uint64_t claim)
{
	return (claim >> 16) - 1;
}

static struct seg_rqe *claim_rqe(struct seg *s, const struct seg_srq *srq, uint64_t claim)
{
	return seg_rqe(s, srq->ring, srq->stride, claim & 0xffff);
}

/* A popper died after claiming: its pop counts if the claim is written. */
static void srq_lock(struct seg *s, struct seg_srq *srq)
{
	uint64_t head;
	uint32_t popper;

	if (!sr_lock_take(&srq->lock))
		return;
	popper = atomic_load(&srq->popper);
	head = atomic_load(&srq->head);
	if (popper && atomic_load(&s->qp[popper - 1].claim) >> 16 == head + 1)
		atomic_store(&srq->head, head + 1);
	atomic_store(&srq->popper, 0);
}

static void check_limit(struct sr_peer *owner, uint32_t srq_slot, struct seg_srq *srq)
{
	uint32_t limit = atomic_load(&srq->limit);

	if (!limit || atomic_load(&srq->posted) - atomic_load(&srq->head) >= limit)
		return;
	atomic_store(&srq->limit, 0); /* one event for each arming */
	atomic_store(&srq->fired, 1);
	sr_peer_kick_srq(owner, srq_slot);
}

static bool srq_pop(struct sr_peer *owner, uint32_t qp_slot, struct seg_srq *srq)
{
	struct seg_qp *q = &owner->seg->qp[qp_slot];
	uint64_t head;
	bool any;

	srq_lock(owner->seg, srq);
	head = atomic_load(&srq->head);
	any = head != atomic_load_explicit(&srq->posted, memory_order_acquire);
	if (any) {
		chaos_point();
		atomic_store(&srq->popper, qp_slot + 1);
		chaos_point();
		atomic_store(&q->claim, claim_of(owner->seg, srq, head));
		chaos_point();
		atomic_store(&srq->head, head + 1);
		chaos_point();
		atomic_store(&srq->popper, 0);
		chaos_point();
		check_limit(owner, q->srq - 1, srq);
	} else {
		atomic_store(&srq->waiters, 1);
		any = head != atomic_load(&srq->posted); /* Dekker with sr_srq_post_recv */
		sr_lock_give(&srq->lock);
		return any && srq_pop(owner, qp_slot, srq);
	}
	sr_lock_give(&srq->lock);
	return true;
}

bool sr_rq_take(struct sr_peer *owner, uint32_t qp_slot, struct sr_taken *ret)
{
	struct seg *s = owner->seg;
	struct seg_qp *q = &s->qp[qp_slot];
	struct seg_srq *srq = srq_of(s, q);

	if (!srq) {
		ret->seq = atomic_load_explicit(&q->rq.head, memory_order_relaxed);
		if (ret->seq == atomic_load_explicit(&q->rq.posted, memory_order_acquire))
			return false;
		ret->rqe = seg_rqe(s, q->rq.ring, q->rq.stride, ret->seq & q->rq.mask);
		ret->pd = q->pd;
		ret->kind = SEG_CQE_RECV;
		ret->slot = (uint16_t)qp_slot;
		return true;
	}
	if (!atomic_load(&q->claim) && !srq_pop(owner, qp_slot, srq))
		return false;
	ret->seq = claim_pos(atomic_load(&q->claim));
	ret->rqe = claim_rqe(s, srq, atomic_load(&q->claim));
	ret->pd = srq->pd;
	ret->kind = srq->cq ? SEG_CQE_XRC : SEG_CQE_RECV;
	ret->slot = (uint16_t)(srq->cq ? q->srq - 1 : qp_slot);
	return true;
}

void sr_rq_done(struct sr_peer *owner, uint32_t qp_slot, const struct sr_taken *t)
{
	struct seg_qp *q = &owner->seg->qp[qp_slot];

	chaos_point();
	if (q->srq)
		atomic_store_explicit(&q->claim, 0, memory_order_release);
	else
		atomic_store_explicit(&q->rq.head, t->seq + 1, memory_order_release);
}

static void repair_srq(struct seg *s, uint32_t qp_slot, struct seg_srq *srq)
{
	struct seg_qp *q = &s->qp[qp_slot];
	uint64_t claim = atomic_load(&q->claim), pos = claim_pos(claim);
	bool popped;

	if (!claim)
		return;
	srq_lock(s, srq);
	popped = atomic_load(&srq->head) > pos;
	sr_lock_give(&srq->lock);
	if (!popped ||
	    sr_completion_has_recv(s, q->recv_cq, srq->cq ? SEG_CQE_XRC : SEG_CQE_RECV,
				   srq->cq ? q->srq - 1 : qp_slot, pos) ||
	    atomic_load(&claim_rqe(s, srq, claim)->seq) != pos) /* polled, perhaps posted again */
		atomic_store(&q->claim, 0);
}

void sr_rq_repair(struct sr_peer *owner, uint32_t qp_slot)
{
	struct seg *s = owner->seg;
	struct seg_qp *q = &s->qp[qp_slot];
	uint64_t head = atomic_load(&q->rq.head);

	if (q->srq) {
		repair_srq(s, qp_slot, srq_of(s, q));
		return;
	}
	if (head == atomic_load(&q->rq.posted))
		return;
	if (sr_completion_has_recv(s, q->recv_cq, SEG_CQE_RECV, qp_slot, head) ||
	    atomic_load(&q->rq.polled) > head)
		atomic_store(&q->rq.head, head + 1);
}

void sr_rq_lock(struct sr_peer *owner, uint32_t qp_slot)
{
	if (sr_lock_take(&owner->seg->qp[qp_slot].lock))
		sr_rq_repair(owner, qp_slot);
}

void sr_rq_unlock(struct sr_peer *owner, uint32_t qp_slot)
{
	sr_lock_give(&owner->seg->qp[qp_slot].lock);
}

/* ---- owner only ------------------------------------------------------------ */

static void flush_one(uint32_t qp_slot, const struct sr_taken *t)
{
	struct seg_qp *q = &seg_self->qp[qp_slot];
	bool is_lost = chaos_on() && chaos_loses();
	struct seg_cqe *e = is_lost ? NULL : sr_completion_begin(sr_peer_self, q->recv_cq);

	if (e) {
		sr_completion_error(e, atomic_load(&q->qpn), t->rqe->wr_id, IBV_WC_WR_FLUSH_ERR);
		sr_taken_name(t, e);
		sr_completion_end(sr_peer_self, q->recv_cq, e);
	}
	sr_rq_done(sr_peer_self, qp_slot, t);
}

void sr_rq_flush(uint32_t qp_slot)
{
	struct seg_qp *q = &seg_self->qp[qp_slot];
	struct sr_taken t;

	if (q->srq && !atomic_load(&q->claim))
		return; /* receives left in the SRQ are for its other QPs */
	while (sr_rq_take(sr_peer_self, qp_slot, &t)) {
		flush_one(qp_slot, &t);
		if (q->srq)
			return;
	}
}

uint32_t sr_rq_unclaim(uint32_t qp_slot)
{
	struct seg_qp *q = &seg_self->qp[qp_slot];
	uint64_t claim = atomic_exchange(&q->claim, 0);

	return claim ? (uint32_t)(claim & 0xffff) : UINT32_MAX;
}
