/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posted is a ring of the works that have not completed, oldest first:
 *
 *   head_seq                                              head_seq + n_posted
 *      | handed to the device | chain, not yet posted | unposted |
 *
 * A WRITE and a bind have a slot but no work. They belong to the SEND behind them: it has the
 * first slot of both, is queued together with them, and its completion settles them. If one fails,
 * that breaks the queue pair, and the SEND comes back flushed.
 *
 * Unposted works were queued on a broken queue pair, or ibv_post_send refused them. They complete
 * with a flush error after all works before them.
 *
 * The completion of one work settles all before it. It settles them with success, since the device
 * reports each failure and completes in order (InfiniBand specification 1.4, 10.8.3.1); after the
 * first failure, as flushed. Only its own completion settles a READ: siw completes a READ when its
 * data has arrived, which may be after a later SEND. The works behind such a READ wait for it, so
 * done is called in posting order on every device.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <rdma/rdma_cma.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/states.h"
#include "transport/chain.h"
#include "transport/cq.h"
#include "transport/qp_post.h"
#include "transport/qp_impl.h"
#include "transport/recv_ring.h"
#include "transport/window.h"

#define TO(s) STATE_TO(QP_##s)

static const struct state_rule life[] = {
	[QP_NEW] = {"new", TO(LIVE)},
	[QP_LIVE] = {"live", TO(BROKEN) | TO(DRAINING) | TO(DETACHED)},
	[QP_BROKEN] = {"broken", TO(DRAINING) | TO(DETACHED)},
	[QP_DRAINING] = {"draining", TO(DRAINED)},
	[QP_DRAINED] = {"drained", TO(DETACHED)},
	[QP_DETACHED] = {"detached", 0},
};

static_assert(sizeof(life) / sizeof(life[0]) == QP_DETACHED + 1, "a rule for each state");

void qp_move(struct qp *qp, enum qp_state next)
{
	states_move("queue pair", life, &qp->state, next);
}

enum {
	/* Without a completion for this long, a draining queue pair is destroyed. */
	QUIET_MS = 2000,
	QUIET_IWARP_MS = 200,
};

static const struct completion flushed = {.status = IBV_WC_WR_FLUSH_ERR};

/* ---- posting ---- */

static struct work **posted_at(const struct qp *qp, unsigned seq)
{
	return &qp->posted[seq & (qp->n_ring - 1)];
}

/* Adds a work, together with the WRITE or bind ahead of it. */
static void push_posted(struct qp *qp, struct work *work)
{
	unsigned n_slots = qp->has_ahead ? 2 : 1;
	unsigned seq = qp->head_seq + qp->n_posted;

	check(qp->n_posted + n_slots <= qp->depth);
	*posted_at(qp, seq) = work;
	qp->n_posted += n_slots;
	work->qp = qp;
	work->is_read = work->is_done = false;
	work->n_slots = (uint16_t)n_slots;
	work->seq = seq;
}

static bool must_signal(const struct qp *qp)
{
	/* The last free slot must be signaled: a caller that waits for a slot gets no other
	 * completion. */
	return qp->n_unsignaled >= qp->signal_every || qp_n_free(qp) == 0;
}

/* The completion of wr settles all works before it. */
static void signal(struct qp *qp, struct ibv_send_wr *wr)
{
	wr->send_flags |= IBV_SEND_SIGNALED;
	qp->n_unsignaled = 0;
	qp->wants_signal = false;
}

static struct ibv_sge verbs_sge(struct sge sge)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)sge.addr,
		.length = sge.length,
		.lkey = sge.lkey,
	};
}

/* No loop: a compiler would prepare it for more pieces than there can be. */
static void fill(struct ibv_send_wr *wr, uint64_t id, const struct sge *sges, unsigned n_sges)
{
	static_assert(QP_SGE_MAX == 2, "each is filled in");
	if (n_sges > 0)
		wr->sg_list[0] = verbs_sge(sges[0]);
	if (n_sges > 1)
		wr->sg_list[1] = verbs_sge(sges[1]);
	wr->wr_id = id;
	wr->num_sge = (int)n_sges;
	wr->send_flags = 0;
}

static void return_chain(struct qp *qp)
{
	if (qp->chain)
		chain_give(&qp->cq->chains, qp->chain);
	qp->chain = NULL;
	qp->n_chain = 0;
}

/* All chains are lent: posts the one that was lent first, which returns it. */
static NOINLINE struct chain *reclaim_chain(struct cq *cq)
{
	struct chain *chain;

	check(!list_is_empty(&cq->dirty));
	qp_flush(list_entry(cq->dirty.next, struct qp, dirty));
	chain = chain_take(&cq->chains);
	check(chain);
	return chain;
}

static struct ibv_send_wr *chained_at(struct qp *qp, unsigned i)
{
	if (!qp->chain)
		qp->chain = chain_take(&qp->cq->chains);
	if (UNLIKELY(!qp->chain))
		qp->chain = reclaim_chain(qp->cq);
	return &qp->chain->wrs[i];
}

/* Takes a request of the chain. NULL: the queue pair is broken and will flush the work. inline: it
 * has so many callers that the compiler would keep it apart, also from the hot ones. */
static inline struct ibv_send_wr *queue_wr(struct qp *qp, struct work *work, const struct sge *sges,
					   unsigned n_sges)
{
	struct ibv_send_wr *wr;

	if (qp->n_chain == CHAIN_MAX)
		qp_flush(qp);
	push_posted(qp, work);
	qp->has_ahead = false;
	if (qp_is_broken(qp->state)) {
		qp->n_unposted += work->n_slots;
		loop_defer(qp->cq->loop, &qp->unposted_call);
		return_chain(qp); /* put_ahead may have taken it */
		return NULL;
	}
	if (!qp->n_chain)
		list_add_tail(&qp->cq->dirty, &qp->dirty);
	qp->n_chain += work->n_slots;
	qp->n_unsignaled += work->n_slots;
	wr = chained_at(qp, qp->n_chain - 1);
	fill(wr, (uintptr_t)work, sges, n_sges);
	return wr;
}

void qp_send(struct qp *qp, struct work *work, const struct sge *sges, unsigned n_sges,
	     unsigned flags, uint32_t invalidate_rkey)
{
	struct ibv_send_wr *wr = queue_wr(qp, work, sges, n_sges);

	if (!wr)
		return;
	if (flags & QP_INLINE)
		wr->send_flags |= IBV_SEND_INLINE;
	if (must_signal(qp))
		signal(qp, wr);
	else if (flags & QP_SIGNALED)
		qp->wants_signal = true; /* qp_flush signals the last request of the chain */
	wr->opcode = IBV_WR_SEND;
	if (!(flags & QP_INVALIDATE))
		invalidate_rkey = 0;
	else
		wr->opcode = IBV_WR_SEND_WITH_INV;
	wr->invalidate_rkey = invalidate_rkey;
	/* libsiw reads the key from this field, for each opcode. Others ignore it for a SEND. */
	wr->wr.rdma.rkey = invalidate_rkey;
}

/* A request without a work of its own: filled in here, queued together with its SEND. */
static struct ibv_send_wr *put_ahead(struct qp *qp, const struct sge *sges, unsigned n_sges)
{
	struct ibv_send_wr *wr;

	check(!qp->has_ahead);
	if (qp->n_chain + 1 >= CHAIN_MAX)
		qp_flush(qp);
	qp->has_ahead = true;
	wr = chained_at(qp, qp->n_chain);
	fill(wr, (uintptr_t)&qp->ahead, sges, n_sges);
	return wr;
}

void qp_write(struct qp *qp, struct sge sge, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr *wr = put_ahead(qp, &sge, 1);

	if (qp->signal_every == 1)
		wr->send_flags = IBV_SEND_SIGNALED;
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = remote_addr;
	wr->wr.rdma.rkey = rkey;
}

void qp_read(struct qp *qp, struct work *work, struct sge sge, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr *wr;

	check(qp_has_read_credit(qp));
	wr = queue_wr(qp, work, &sge, 1);
	qp->n_reads++;
	work->is_read = true;
	if (!wr)
		return;
	signal(qp, wr); /* no other completion proves that its data has arrived */
	wr->opcode = IBV_WR_RDMA_READ;
	wr->wr.rdma.remote_addr = remote_addr;
	wr->wr.rdma.rkey = rkey;
}

uint32_t qp_bind(struct qp *qp, struct window *window, const struct mr *mr, void *addr,
		 uint32_t length, enum mr_access access)
{
	struct ibv_send_wr *wr = put_ahead(qp, NULL, 0);

	/* A provider reads the old key from the window when it posts the chain. The chain of the
	 * last binding is posted by now, since its command is complete. */
	window->verbs->rkey = window->rkey;
	window->rkey = ibv_inc_rkey(window->rkey);
	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = window->verbs;
	wr->bind_mw.rkey = window->rkey;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = mr->verbs,
		.addr = (uintptr_t)addr,
		.length = length,
		.mw_access_flags = access == MR_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE
							     : IBV_ACCESS_REMOTE_READ,
	};
	return window->rkey;
}

void qp_invalidate(struct qp *qp, struct work *work, const struct window *window)
{
	struct ibv_send_wr *wr = queue_wr(qp, work, NULL, 0);

	if (!wr)
		return;
	signal(qp, wr);
	wr->opcode = IBV_WR_LOCAL_INV;
	wr->invalidate_rkey = window->rkey;
}

static void on_own_done(struct work *work, const struct completion *c)
{
}

/* A WRITE of no bytes: its completion settles the others. The peer's device acknowledges it without
 * a look at its key (IBA 1.4, C9-88). On iWARP all requests are signaled. */
void qp_settle(struct qp *qp)
{
	struct ibv_send_wr *wr;

	check(!qp->settler.done);
	if (!qp->n_unsignaled || qp->wants_signal)
		return;
	qp->settler.done = on_own_done;
	wr = queue_wr(qp, &qp->settler, NULL, 0);
	if (!wr)
		return;
	signal(qp, wr);
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = 0;
	wr->wr.rdma.rkey = 0;
}

/*
 * A post can fail in the middle of a chain: the device has the requests before bad. siw does not
 * return bad, so the device may have all of them, and draining brings them back. If bad is the SEND
 * behind a posted WRITE, nothing completes that WRITE: on_quiet gives both up.
 */
static void on_post_failed(struct qp *qp, const struct ibv_send_wr *bad, int error)
{
	if (bad)
		qp->n_unposted += qp->n_chain - (unsigned)(bad - qp->chain->wrs);
	return_chain(qp);
	log_debug("qp %u: posting failed: %s", qp->number, strerror(error));
	loop_defer(qp->cq->loop, &qp->unposted_call);
	qp_break(qp, &flushed);
}

void qp_flush(struct qp *qp)
{
	struct ibv_send_wr *bad = NULL, *last, *rest;
	int r;

	list_remove(&qp->dirty);
	if (!qp->n_chain)
		return;
	last = &qp->chain->wrs[qp->n_chain - 1];
	if (qp->wants_signal)
		signal(qp, last);
	/* Receives first: after the response, the peer may use its receive at once. */
	if (qp->ring->n_chain)
		recv_flush(qp->ring);
	rest = last->next;
	last->next = NULL;
	r = ibv_post_send(qp->verbs, qp->chain->wrs, &bad);
	last->next = rest;
	if (r)
		on_post_failed(qp, bad, r < 0 ? -r : r);
	else
		return_chain(qp);
}

/* ---- completions ---- */

static struct work *pop_posted(struct qp *qp)
{
	struct work *work = *posted_at(qp, qp->head_seq);

	qp->head_seq += work->n_slots;
	qp->n_posted -= work->n_slots;
	if (work->is_read)
		qp->n_reads--;
	return work;
}

static void note_credit(struct qp *qp)
{
	if (list_is_empty(&qp->credited))
		list_add_tail(&qp->cq->credited, &qp->credited);
}

/* Completes the oldest settled works, up to the first READ without its completion. */
static void hand_back(struct qp *qp)
{
	struct completion c = {0};

	while (qp->n_settled) {
		struct work *work = *posted_at(qp, qp->head_seq);

		if (work->is_read && !work->is_done)
			break;
		pop_posted(qp);
		qp->n_settled -= work->n_slots;
		c.status = work->is_done	     ? work->status
			   : qp_is_broken(qp->state) ? IBV_WC_WR_FLUSH_ERR
						     : IBV_WC_SUCCESS;
		work->done(work, &c);
	}
}

void qp_complete(struct qp *qp, struct work *work, unsigned status)
{
	unsigned n_settled;

	if (qp_has_drained(qp->state))
		return; /* a late completion: the works are flushed already */
	if (status != IBV_WC_SUCCESS)
		qp_break(qp, &(struct completion){.status = status});
	if (work == &qp->ahead)
		return; /* the SEND behind it completes, too */
	n_settled = work->seq + work->n_slots - qp->head_seq;
	check(n_settled <= qp->n_posted - qp->n_unposted);
	work->is_done = true;
	work->status = (uint16_t)status;
	qp->n_settled = MAX(qp->n_settled, n_settled);
	note_credit(qp);
	hand_back(qp);
	if (qp->n_unposted)
		loop_defer(qp->cq->loop, &qp->unposted_call);
	qp_check_drained(qp);
}

void qp_complete_unposted(struct loop_call *call)
{
	struct qp *qp = container_of(call, struct qp, unposted_call);

	if (qp->n_posted != qp->n_unposted)
		return; /* qp_complete defers it again */
	while (qp->n_unposted) {
		struct work *work = pop_posted(qp);

		qp->n_unposted -= work->n_slots;
		work->done(work, &flushed);
	}
	qp_check_drained(qp);
}

void qp_credit(struct qp *qp)
{
	if (qp->on_credit && !qp_is_broken(qp->state))
		qp->on_credit(qp);
}

void qp_break(struct qp *qp, const struct completion *c)
{
	if (qp_is_broken(qp->state))
		return;
	qp_move(qp, QP_BROKEN);
	qp->cause = *c;
	qp_drop_chain(qp);
	loop_defer(qp->cq->loop, &qp->broken_call);
}

/* ---- draining ---- */

void qp_drop_chain(struct qp *qp)
{
	list_remove(&qp->dirty);
	if (!qp->n_chain)
		return;
	qp->n_unposted += qp->n_chain;
	return_chain(qp);
	qp->wants_signal = false;
	loop_defer(qp->cq->loop, &qp->unposted_call);
}

/*
 * The marker is the last work request of the queue pair. When it completes, all others have, too.
 * With a shared receive queue, all receives that this queue pair took are then reported as well.
 * It replaces the event LAST_WQE_REACHED, which rxe and iWARP do not raise.
 */
void qp_post_marker(struct qp *qp)
{
	struct ibv_send_wr wr = {.wr_id = (uintptr_t)&qp->drain_marker,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	qp->drain_marker = (struct work){.done = on_own_done};
	/* Unposted works must stay last in the ring, so with any of them there is no marker. */
	if (qp->n_unposted || ibv_post_send(qp->verbs, &wr, &bad)) {
		loop_defer(qp->cq->loop, &qp->unposted_call);
		return;
	}
	push_posted(qp, &qp->drain_marker);
}

static void wait_for_more(struct qp *qp)
{
	bool is_iwarp = qp->cq->device->limits.is_iwarp;

	loop_timer_start(qp->cq->loop, &qp->quiet,
			 (is_iwarp ? QUIET_IWARP_MS : QUIET_MS) * NSEC_PER_MSEC);
}

void qp_check_drained(struct qp *qp)
{
	if (!qp_is_draining(qp->state) || qp->hold == QP_RELEASING)
		return;
	if (qp->n_posted == 0 && qp->own_ring.n_posted == 0)
		loop_defer(qp->cq->loop, &qp->drained_call);
	else if (qp->hold == QP_HELD)
		wait_for_more(qp);
}
