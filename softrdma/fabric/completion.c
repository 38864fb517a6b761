/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Producing completions; see completion.h.
 *
 * Arming (Dekker): the producer publishes the tail and then looks at `armed`; the consumer arms and
 * then polls again. Both are sequentially consistent. The event is a token in the channel's eventfd
 * plus one on the CQ's `pending`. If a producer dies in between, sr_cq_peer_died() raises the
 * event.
 */
#include "softrdma/fabric/completion.h"

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/process/api.h"

struct seg_cqe *sr_completion_begin(struct sr_peer *owner, uint32_t slot)
{
	struct seg_cq *s = &owner->seg->cq[slot];
	uint64_t tail;

	sr_lock_take(&s->lock);
	tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	if (chaos_on() && owner == sr_peer_self && chaos_overruns())
		tail += s->mask + 1ULL;
	if (atomic_load(&s->live) &&
	    tail - atomic_load_explicit(&s->head, memory_order_acquire) <= s->mask)
		return seg_cqe(owner->seg, s, tail);
	sr_lock_give(&s->lock);
	if (!atomic_exchange(&s->overrun, 1))
		sr_peer_kick_cq(owner, slot);
	return NULL;
}

static bool wants_event(uint32_t armed, const struct seg_cqe *e)
{
	return armed == SEG_ARM_ANY ||
	       (armed == SEG_ARM_SOLICITED && (e->solicited || e->wc.status));
}

static void raise_event(struct sr_peer *owner, struct seg_cq *s)
{
	if (!atomic_exchange(&s->armed, SEG_ARM_NONE))
		return;
	if (s->chan_fd < 0)
		return;
	chaos_point();
	atomic_fetch_add(&s->pending, 1);
	chaos_point();
	sr_peer_ring_channel(owner, s);
}

void sr_completion_end(struct sr_peer *owner, uint32_t slot, const struct seg_cqe *e)
{
	struct seg_cq *s = &owner->seg->cq[slot];
	uint64_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	bool ring;

	chaos_point();
	atomic_store(&s->tail, tail + 1); /* seq_cst: before the look at armed */
	chaos_point();
	ring = wants_event(atomic_load(&s->armed), e);
	sr_lock_give(&s->lock);
	if (UNLIKELY(ring))
		raise_event(owner, s);
	if (chaos_on() && s->chan_fd >= 0 && chaos_spurious_event()) {
		atomic_fetch_add(&s->pending, 1);
		sr_peer_ring_channel(owner, s);
	}
}

void sr_completion_error(struct seg_cqe *e, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status)
{
	/* ibv_poll_cq(3) leaves the other fields undefined; no program should rely on them. */
	memset(&e->wc, 0x5a, sizeof(e->wc));
	e->wc.wr_id = wr_id;
	e->wc.status = status;
	e->wc.vendor_err = (uint32_t)status;
	e->wc.qp_num = qpn;
	e->solicited = 1; /* errors always raise an armed event */
	e->inl_len = 0;
}

bool sr_completion_has_recv(struct seg *s, uint32_t cq_slot, enum seg_cqe_kind kind, uint32_t slot,
			    uint64_t seq)
{
	struct seg_cq *c = &s->cq[cq_slot];
	bool found = false;

	sr_lock_take(&c->lock);
	for (uint64_t i = atomic_load(&c->head); i != atomic_load(&c->tail) && !found; i++) {
		const struct seg_cqe *e = seg_cqe(s, c, i);

		found = e->kind == kind && e->slot == slot && e->seq == seq;
	}
	sr_lock_give(&c->lock);
	return found;
}
