/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/completion.h"
#include "softrdma/process/api.h"
#include "softrdma/verbs/qp_complete.h"
#include "softrdma/verbs/mr_impl.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/verbs/qp_table.h"
#include "softrdma/verbs/srq.h"

static enum ibv_wc_opcode wc_opcode(uint32_t opcode)
{
	switch ((enum ibv_wr_opcode)opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_SEND;
	}
}

void sr_qp_complete(struct sr_qp *qp, const struct sr_wqe *w, uint64_t freed,
		    enum ibv_wc_status status, uint32_t byte_len)
{
	uint32_t qpn = qp->ib.qp_base.qp_num;
	struct seg_cqe *e;

	if (!status && !qp->signals_all && !(w->flags & IBV_SEND_SIGNALED))
		return;
	if (chaos_on() && chaos_loses())
		return;
	e = sr_completion_begin(sr_peer_self, qp->send_cq->slot);
	if (!e)
		return;
	if (status) {
		sr_completion_error(e, qpn, w->wr_id, status);
	} else {
		e->wc = (struct ibv_wc){.wr_id = w->wr_id,
					.opcode = wc_opcode(w->opcode),
					.byte_len = byte_len,
					.qp_num = qpn};
		e->solicited = 0;
		e->inl_len = 0;
	}
	e->seq = freed;
	e->slot = (uint16_t)qp->slot;
	e->kind = SEG_CQE_SEND;
	sr_completion_end(sr_peer_self, qp->send_cq->slot, e);
}

/* The payload of a small SEND: from the entry into the receive's buffers. */
static void scatter(const struct seg_rqe *r, uint32_t pd, const struct seg_cqe *e)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < r->n_sge && done < e->inl_len; i++) {
		uint32_t len = e->inl_len - done < r->sge[i].length ? e->inl_len - done
								    : r->sge[i].length;
		uint64_t va;

		/* Checked at delivery. If the region was deregistered since, the bytes are lost. */
		if (len && sr_mr_allows(seg_self, r->sge[i].lkey, pd, r->sge[i].addr, len,
					IBV_ACCESS_LOCAL_WRITE, &va))
			memcpy((void *)(uintptr_t)va, e->inl + done, len);
		done += len;
	}
}

/* A receive of an SRQ. */
static void give_back(struct sr_srq *srq, const struct seg_cqe *e)
{
	if (e->inl_len)
		scatter(seg_rqe(seg_self, srq->s->ring, srq->s->stride, e->rqe_slot), srq->s->pd,
			e);
	sr_srq_give(srq, e->rqe_slot);
}

void sr_qp_on_polled(const struct seg_cqe *e)
{
	struct sr_qp *qp;

	if (UNLIKELY(e->kind == SEG_CQE_XRC)) {
		give_back(sr_srq_at(e->slot), e);
		return;
	}
	qp = sr_qp_table[e->slot]; /* stays until its entries have left the CQ */

	if (e->kind == SEG_CQE_SEND) {
		atomic_store_explicit(&qp->freed, e->seq, memory_order_release);
		return;
	}
	if (qp->srq) {
		give_back(qp->srq, e);
		return;
	}
	if (e->inl_len)
		scatter(seg_rqe(seg_self, qp->s->rq.ring, qp->s->rq.stride, e->rqe_slot), qp->s->pd,
			e);
	atomic_store_explicit(&qp->s->rq.polled, e->seq + 1, memory_order_release);
}

void sr_qp_on_dropped(const struct seg_cqe *e)
{
	struct sr_qp *qp = sr_qp_table[e->slot];

	if (qp->srq)
		sr_srq_give(qp->srq, e->rqe_slot);
}
