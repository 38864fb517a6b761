/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send is checked for what a driver checks at posting time, copied into the private ring, and
 * executed before the call returns, unless a request before it waits. Errors of posting leave the
 * earlier requests of the list posted and return the failed one in *bad, as ibv_post_send(3)
 * specifies.
 *
 * A ring slot is used until the completion of its request, or of a later signalled one, has been
 * polled: a program that never signals fills its queue, as on hardware.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/fabric/peer.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/process/api.h"
#include "softrdma/verbs/ah.h"
#include "softrdma/process/likeness.h"
#include "softrdma/verbs/post.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/verbs/qp_table.h"

/* ---- sends ----------------------------------------------------------------- */

struct sr_wqe *sr_wqe_next(struct sr_qp *qp)
{
	uint64_t freed = atomic_load_explicit(&qp->freed, memory_order_acquire);

	return qp->head - freed < qp->cap.max_send_wr ? sr_qp_wqe(qp, qp->head) : NULL;
}

int sr_wqe_inline(const struct sr_qp *qp, struct sr_wqe *w, const void *data, size_t len)
{
	if (len > qp->cap.max_inline_data - w->inl_len)
		return ENOMEM;
	if (len)
		memcpy(w->data + w->inl_len, data, len);
	w->inl_len = (uint16_t)(w->inl_len + len);
	return 0;
}

static int copy_sges(const struct sr_qp *qp, struct sr_wqe *w, const struct ibv_send_wr *wr)
{
	int r = 0;

	w->n_sge = 0;
	w->inl_len = 0;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		w->n_sge = (uint8_t)wr->num_sge;
		sr_copy_sge_list(w->sge, wr->sg_list, w->n_sge);
		return 0;
	}
	if (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return EINVAL;
	for (int i = 0; i < wr->num_sge && !r; i++) {
		struct ibv_sge sge;

		sr_copy_sge_list(&sge, &wr->sg_list[i], 1);
		r = sr_wqe_inline(qp, w, (void *)(uintptr_t)sge.addr, sge.length);
	}
	return r;
}

static struct sr_wqe_extra *extra_at(struct sr_qp *qp, const struct sr_wqe *w)
{
	if (!qp->extras)
		qp->extras = calloc(qp->wqe_mask + 1ULL, sizeof(*qp->extras));
	return qp->extras ? &qp->extras[sr_wqe_slot(qp, w)] : NULL;
}

int sr_wqe_atomic(struct sr_qp *qp, const struct sr_wqe *w, uint64_t compare_add, uint64_t swap)
{
	struct sr_wqe_extra *extra = extra_at(qp, w);

	if (!extra)
		return ENOMEM;
	extra->atomic.compare_add = compare_add;
	extra->atomic.swap = swap;
	return 0;
}

int sr_wqe_bind(struct sr_qp *qp, const struct sr_wqe *w, struct ibv_mw *mw,
		const struct ibv_mw_bind_info *info)
{
	struct sr_wqe_extra *extra = extra_at(qp, w);

	if (!extra)
		return ENOMEM;
	extra->bind.mw = mw;
	extra->bind.info = *info;
	return 0;
}

int sr_wqe_datagram(struct sr_qp *qp, const struct sr_wqe *w, struct ibv_ah *ah, uint32_t qpn,
		    uint32_t qkey)
{
	struct sr_wqe_extra *extra = extra_at(qp, w);

	if (!extra)
		return ENOMEM;
	extra->datagram.to.engine = NULL;
	if (!ah)
		return EINVAL;
	extra->datagram.to = sr_to_ah(ah)->to;
	extra->datagram.qpn = qpn & 0xffffff;
	extra->datagram.qkey = qkey;
	return 0;
}

static int copy_datagram(struct sr_qp *qp, struct sr_wqe *w, const struct ibv_send_wr *wr)
{
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM)
		return EINVAL;
	w->imm = wr->imm_data;
	return sr_wqe_datagram(qp, w, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
}

void sr_wqe_srqn(struct sr_qp *qp, const struct sr_wqe *w, uint32_t srqn)
{
	qp->extras[sr_wqe_slot(qp, w)].srqn = srqn & 0xffffff;
}

static int copy_operation(struct sr_qp *qp, struct sr_wqe *w, const struct ibv_send_wr *wr)
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
		return sr_wqe_atomic(qp, w, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
	case IBV_WR_BIND_MW:
		if (wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		w->rkey = wr->bind_mw.rkey;
		return sr_wqe_bind(qp, w, wr->bind_mw.mw, &wr->bind_mw.bind_info);
	default:
		return EINVAL;
	}
}

bool sr_wqe_is_lossy(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW;
}

/* For the kinds of queue pairs other than RC. */
static NOINLINE int copy_of_type(struct sr_qp *qp, struct sr_wqe *w, const struct ibv_send_wr *wr)
{
	if (sr_qp_is_datagram(qp))
		return copy_datagram(qp, w, wr);
	if (sr_qp_is_lossy(qp) && !sr_wqe_is_lossy(w->opcode))
		return EINVAL;
	if (sr_qp_is_xrc_send(qp))
		sr_wqe_srqn(qp, w, wr->qp_type.xrc.remote_srqn);
	return copy_operation(qp, w, wr);
}

/* Whether a device like siw would refuse the request when it sends it; requests before it are
 * posted. */
static int siw_refuses(const struct sr_wqe *w)
{
	switch ((enum ibv_wr_opcode)w->opcode) {
	case IBV_WR_SEND_WITH_INV:
		return w->flags & IBV_SEND_INLINE ? EINVAL : 0;
	case IBV_WR_SEND:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW: /* siw has none; allowed: SEND_WITH_INV needs a window */
		return 0;
	default:
		return EINVAL; /* neither immediate data nor atomics */
	}
}

static int queue_one(struct sr_qp *qp, const struct ibv_send_wr *wr)
{
	struct sr_wqe *w = sr_wqe_next(qp);
	int r;

	if (!w)
		return qp->cap.max_send_wr ? ENOMEM : EINVAL; /* XRC_RECV sends nothing */
	w->wr_id = wr->wr_id;
	w->opcode = wr->opcode;
	w->flags = (uint8_t)wr->send_flags;
	w->stage = WQE_QUEUED;
	w->is_fated = false;
	w->moved = 0;
	r = LIKELY(qp->type == IBV_QPT_RC) ? copy_operation(qp, w, wr) : copy_of_type(qp, w, wr);
	if (!r && sr_is_siw())
		r = siw_refuses(w);
	if (!r)
		r = copy_sges(qp, w, wr);
	if (!r)
		qp->head++;
	return r;
}

/* IBA 10.3.1: sends may be posted in RTS, SQD and ERR. */
bool sr_wqe_may_post(const struct sr_qp *qp)
{
	enum ibv_qp_state state = sr_qp_state(qp);

	return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_ERR;
}

/* On a device like siw, a request posted in the error state never completes. */
static bool loses_posts(const struct sr_qp *qp)
{
	return sr_is_siw() && sr_qp_state(qp) == IBV_QPS_ERR;
}

int sr_qp_post_send(struct ibv_qp *ib, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct sr_qp *qp = sr_to_qp(ib);
	int r;

	pthread_mutex_lock(&qp->sq_lock);
	r = sr_wqe_may_post(qp) ? 0 : EINVAL;
	if (loses_posts(qp))
		wr = NULL;
	while (wr && !r) {
		r = queue_one(qp, wr);
		if (!r)
			wr = wr->next;
	}
	if (qp->exec != qp->head)
		sr_qp_run(qp);
	pthread_mutex_unlock(&qp->sq_lock);
	if (r)
		*bad = sr_is_siw() ? NULL : wr;
	return r;
}

int sr_qp_post_bind(struct sr_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind)
{
	struct sr_wqe *w;
	int r = 0;

	pthread_mutex_lock(&qp->sq_lock);
	w = sr_wqe_may_post(qp) ? sr_wqe_next(qp) : NULL;
	if (w && !sr_wqe_bind(qp, w, mw, &bind->bind_info)) {
		w->wr_id = bind->wr_id;
		w->opcode = IBV_WR_BIND_MW;
		w->flags = (uint8_t)bind->send_flags;
		w->stage = WQE_QUEUED;
		w->is_fated = false;
		w->rkey = ibv_inc_rkey(mw->rkey); /* a type 1 window gets its key here */
		w->n_sge = 0;
		w->inl_len = 0;
		mw->rkey = w->rkey;
		qp->head++;
		sr_qp_run(qp);
	} else {
		r = sr_wqe_may_post(qp) ? ENOMEM : EINVAL;
	}
	pthread_mutex_unlock(&qp->sq_lock);
	return r;
}

int sr_mw_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	return sr_qp_post_bind(sr_to_qp(qp), mw, bind);
}

/* ---- receives -------------------------------------------------------------- */

static int queue_recv(struct sr_qp *qp, const struct ibv_recv_wr *wr)
{
	struct seg_rq *rq = &qp->s->rq;
	uint64_t pos = atomic_load_explicit(&rq->posted, memory_order_relaxed);
	struct seg_rqe *e;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_recv_sge)
		return EINVAL;
	if (pos - atomic_load_explicit(&rq->polled, memory_order_acquire) >= qp->cap.max_recv_wr)
		return qp->cap.max_recv_wr ? ENOMEM : EINVAL; /* XRC has no receives of its own */
	e = seg_rqe(seg_self, rq->ring, rq->stride, pos & rq->mask);
	e->wr_id = wr->wr_id;
	atomic_store_explicit(&e->seq, pos, memory_order_relaxed);
	e->slot = (uint32_t)pos & rq->mask;
	e->n_sge = (uint32_t)wr->num_sge;
	sr_copy_sge_list(e->sge, wr->sg_list, e->n_sge);
	atomic_store(&rq->posted, pos + 1); /* seq_cst: before the looks at waiter and state */
	return 0;
}

/* IBA 10.3.1: receives may be posted from INIT on; in ERR they are flushed. */
static int may_recv(const struct sr_qp *qp)
{
	return qp->srq || sr_qp_state(qp) == IBV_QPS_RESET ? EINVAL : 0;
}

int sr_qp_post_recv(struct ibv_qp *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sr_qp *qp = sr_to_qp(ib);
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
	if (UNLIKELY(atomic_load(&qp->s->waiter)))
		sr_qp_kick_waiter(qp->slot);
	if (UNLIKELY(atomic_load(&qp->s->state) == IBV_QPS_ERR)) {
		sr_rq_lock(sr_peer_self, qp->slot);
		sr_rq_flush(qp->slot);
		sr_rq_unlock(sr_peer_self, qp->slot);
	}
	pthread_mutex_unlock(&qp->rq_lock);
	if (r)
		*bad = wr;
	return r;
}
