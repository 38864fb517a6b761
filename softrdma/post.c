/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting work requests: the classic verbs. (The ibv_wr_* builder is in wr_ex.c.)
 *
 * A send is checked for what a driver checks at posting time, copied into the
 * private ring, and executed before the call returns unless something before it
 * waits. Errors of posting leave the earlier requests of the list posted and name
 * the culprit in *bad, as ibv_post_send(3) says.
 *
 * A ring slot is used until the completion of its request, or of a later signalled
 * one, has been polled: a program that never signals runs full here, as it would on
 * hardware.
 */
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "rq.h"
#include "verbs_mr.h"

/* ---- sends ----------------------------------------------------------------- */

struct wqe *wqe_next(struct qp *qp)
{
	uint64_t freed = atomic_load_explicit(&qp->freed, memory_order_acquire);

	return qp->head - freed < qp->cap.max_send_wr ? qp_wqe(qp, qp->head) : NULL;
}

int wqe_inline(const struct qp *qp, struct wqe *w, const void *data, size_t len)
{
	if (len > qp->cap.max_inline_data - w->inl_len)
		return ENOMEM;
	if (len)
		memcpy(w->data + w->inl_len, data, len);
	w->inl_len = (uint16_t)(w->inl_len + len);
	return 0;
}

static int copy_sges(const struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr)
{
	int r = 0;

	w->n_sge = 0;
	w->inl_len = 0;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		w->n_sge = (uint8_t)wr->num_sge;
		copy_sge_list(w->sge, wr->sg_list, w->n_sge);
		return 0;
	}
	if (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return EINVAL;
	for (int i = 0; i < wr->num_sge && !r; i++) {
		struct ibv_sge sge;

		copy_sge_list(&sge, &wr->sg_list[i], 1);
		r = wqe_inline(qp, w, (void *)(uintptr_t)sge.addr, sge.length);
	}
	return r;
}

static union wqe_extra *extra_at(struct qp *qp, const struct wqe *w)
{
	if (!qp->extras)
		qp->extras = calloc(qp->wqe_mask + 1ULL, sizeof(*qp->extras));
	return qp->extras ? &qp->extras[wqe_slot(qp, w)] : NULL;
}

int wqe_atomic(struct qp *qp, const struct wqe *w, uint64_t compare_add, uint64_t swap)
{
	union wqe_extra *extra = extra_at(qp, w);

	if (!extra)
		return ENOMEM;
	extra->atomic.compare_add = compare_add;
	extra->atomic.swap = swap;
	return 0;
}

int wqe_bind(struct qp *qp, const struct wqe *w, struct ibv_mw *mw,
	     const struct ibv_mw_bind_info *info)
{
	union wqe_extra *extra = extra_at(qp, w);

	if (!extra)
		return ENOMEM;
	extra->bind.mw = mw;
	extra->bind.info = *info;
	return 0;
}

static int copy_operation(struct qp *qp, struct wqe *w, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		w->imm = wr->invalidate_rkey; /* or the immediate: a union */
		return 0;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		w->imm = wr->imm_data;
		w->remote_addr = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		w->remote_addr = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		return wqe_atomic(qp, w, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
	case IBV_WR_BIND_MW:
		if (wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		w->rkey = wr->bind_mw.rkey;
		return wqe_bind(qp, w, wr->bind_mw.mw, &wr->bind_mw.bind_info);
	default:
		return EINVAL;
	}
}

/* What a device like siw refuses when it comes to send it: all before it is posted. */
static int siw_refuses(const struct wqe *w)
{
	switch ((enum ibv_wr_opcode)w->opcode) {
	case IBV_WR_SEND_WITH_INV:
		return w->flags & IBV_SEND_INLINE ? EINVAL : 0;
	case IBV_WR_SEND:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW: /* it has none; kept, for SEND_WITH_INV has no other object */
		return 0;
	default:
		return EINVAL; /* neither immediate data nor atomics */
	}
}

static int queue_one(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct wqe *w = wqe_next(qp);
	int r;

	if (!w)
		return ENOMEM;
	w->wr_id = wr->wr_id;
	w->opcode = wr->opcode;
	w->flags = (uint8_t)wr->send_flags;
	w->stage = WQE_QUEUED;
	w->fated = false;
	w->moved = 0;
	r = copy_operation(qp, w, wr);
	if (!r && dev_is_siw())
		r = siw_refuses(w);
	if (!r)
		r = copy_sges(qp, w, wr);
	if (!r)
		qp->head++;
	return r;
}

/* IBA 10.3.1: sends may be posted in RTS, SQD and ERR. */
bool wqe_may_post(const struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);

	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR;
}

/* On a device like siw, what is posted in the error state never comes back. */
static bool loses_posts(const struct qp *qp)
{
	return dev_is_siw() && qp_state(qp) == IBV_QPS_ERR;
}

int qp_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = to_qp(ib);
	int r;

	pthread_mutex_lock(&qp->sq_lock);
	r = wqe_may_post(qp) ? 0 : EINVAL;
	if (loses_posts(qp))
		wr = NULL;
	while (wr && !r) {
		r = queue_one(qp, wr);
		if (!r)
			wr = wr->next;
	}
	if (qp->exec != qp->head)
		qp_run(qp);
	pthread_mutex_unlock(&qp->sq_lock);
	if (r)
		*bad = dev_is_siw() ? NULL : wr;
	return r;
}

int qp_post_bind(struct qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind)
{
	struct wqe *w;
	int r = 0;

	pthread_mutex_lock(&qp->sq_lock);
	w = wqe_may_post(qp) ? wqe_next(qp) : NULL;
	if (w && !wqe_bind(qp, w, mw, &bind->bind_info)) {
		w->wr_id = bind->wr_id;
		w->opcode = IBV_WR_BIND_MW;
		w->flags = (uint8_t)bind->send_flags;
		w->stage = WQE_QUEUED;
		w->fated = false;
		w->rkey = ibv_inc_rkey(mw->rkey); /* a type 1 window gets its key here */
		w->n_sge = 0;
		w->inl_len = 0;
		mw->rkey = w->rkey;
		qp->head++;
		qp_run(qp);
	} else {
		r = wqe_may_post(qp) ? ENOMEM : EINVAL;
	}
	pthread_mutex_unlock(&qp->sq_lock);
	return r;
}

int mw_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return qp_post_bind(to_qp(qp), mw, bind);
}

/* ---- receives -------------------------------------------------------------- */

static int queue_recv(struct qp *qp, const struct ibv_recv_wr *wr)
{
	struct seg_rq *rq = &qp->s->rq;
	uint64_t pos = atomic_load_explicit(&rq->posted, memory_order_relaxed);
	struct seg_rqe *e;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
		return EINVAL;
	if (pos - atomic_load_explicit(&rq->polled, memory_order_acquire) >= qp->cap.max_recv_wr)
		return ENOMEM;
	e = seg_rqe(seg_self, rq->ring, rq->stride, pos & rq->mask);
	e->wr_id = wr->wr_id;
	atomic_store_explicit(&e->seq, pos, memory_order_relaxed);
	e->slot = (uint32_t)pos & rq->mask;
	e->n_sge = (uint32_t)wr->num_sge;
	copy_sge_list(e->sge, wr->sg_list, e->n_sge);
	atomic_store(&rq->posted, pos + 1); /* seq_cst: before the looks at waiter and state */
	return 0;
}

/* IBA 10.3.1: receives may be posted from INIT on; in ERR they are flushed. */
static int may_recv(const struct qp *qp)
{
	return qp->srq || qp_state(qp) == IBV_QPS_RESET ? EINVAL : 0;
}

int qp_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = to_qp(ib);
	int r;

	pthread_mutex_lock(&qp->rq_lock);
	r = may_recv(qp);
	if (loses_posts(qp))
		wr = NULL;
	while (wr && !r) {
		r = queue_recv(qp, wr);
		if (!r)
			wr = wr->next;
	}
	if (__builtin_expect(atomic_load(&qp->s->waiter), 0))
		qp_kick_waiter(qp->slot);
	if (__builtin_expect(atomic_load(&qp->s->state) == IBV_QPS_ERR, 0)) {
		rq_lock(peer_self, qp->slot);
		rq_flush(qp->slot);
		rq_unlock(peer_self, qp->slot);
	}
	pthread_mutex_unlock(&qp->rq_lock);
	if (r)
		*bad = wr;
	return r;
}
