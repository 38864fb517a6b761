/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polling an empty queue is two loads. Polling a completion frees the slots of the send queue: as
 * on hardware, nothing else does.
 */
#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/process/api.h"
#include "softrdma/verbs/cq_poll.h"
#include "softrdma/verbs/qp_complete.h"
#include "softrdma/verbs/qp_impl.h"

/*
 * Chaos: the first completion of another queue pair moves to the front. There is no
 * order between queue pairs, and within one it stays.
 */
static COLD void reorder(struct sr_cq *cq)
{
	struct seg_cq *s = cq->s;
	uint64_t head, tail, other;

	sr_lock_take(&s->lock); /* a repair may be looking for a completion */
	head = atomic_load(&s->head);
	tail = atomic_load(&s->tail);
	for (other = head; other != tail; other++)
		if (cq->ring[other & s->mask].slot != cq->ring[head & s->mask].slot)
			break;
	if (other != tail) {
		struct seg_cqe first = cq->ring[other & s->mask];

		for (; other != head; other--)
			cq->ring[other & s->mask] = cq->ring[(other - 1) & s->mask];
		cq->ring[head & s->mask] = first;
	}
	sr_lock_give(&s->lock);
}

bool sr_cq_pop(struct sr_cq *cq, struct ibv_wc *wc)
{
	struct seg_cq *s = cq->s;
	uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
	bool found = false;

	if (chaos_on() && chaos_reorders())
		reorder(cq);
	while (!found && head != atomic_load_explicit(&s->tail, memory_order_acquire)) {
		const struct seg_cqe *e = &cq->ring[head & s->mask];

		found = e->kind != SEG_CQE_VOID;
		if (found) {
			*wc = e->wc;
			sr_qp_on_polled(e);
		}
		atomic_store_explicit(&s->head, ++head, memory_order_release);
	}
	return found;
}

static bool is_empty(const struct sr_cq *cq)
{
	return atomic_load_explicit(&cq->s->tail, memory_order_acquire) ==
	       atomic_load_explicit(&cq->s->head, memory_order_relaxed);
}

bool sr_cq_look(struct sr_cq *cq)
{
	if (!is_empty(cq))
		return true;
	sr_engine_poll();
	return !is_empty(cq);
}

int sr_cq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc)
{
	struct sr_cq *cq = sr_to_cq(ib);
	int got = 0;

	if (!sr_cq_look(cq))
		return 0;
	if (chaos_on())
		n = chaos_poll_limit(n);
	pthread_mutex_lock(&cq->poll);
	while (got < n && sr_cq_pop(cq, &wc[got]))
		got++;
	pthread_mutex_unlock(&cq->poll);
	return got;
}

static void drop(struct sr_cq *cq, bool is_xrc, uint32_t slot)
{
	struct seg_cq *s = cq->s;
	uint64_t tail;

	pthread_mutex_lock(&cq->poll);
	sr_lock_take(&s->lock);
	tail = atomic_load(&s->tail);
	for (uint64_t i = atomic_load(&s->head); i != tail; i++) {
		struct seg_cqe *e = &cq->ring[i & s->mask];

		if (e->slot != slot || (e->kind == SEG_CQE_XRC) != is_xrc ||
		    e->kind == SEG_CQE_VOID)
			continue;
		if (e->kind == SEG_CQE_RECV)
			sr_qp_on_dropped(e);
		e->kind = SEG_CQE_VOID;
	}
	sr_lock_give(&s->lock);
	pthread_mutex_unlock(&cq->poll);
}

void sr_cq_drop_qp(struct sr_cq *cq, uint32_t qp_slot)
{
	drop(cq, false, qp_slot);
}

void sr_cq_drop_srq(struct sr_cq *cq, uint32_t srq_slot)
{
	drop(cq, true, srq_slot);
}
