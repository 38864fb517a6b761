/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "softrdma/fabric/completion.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/roce/host.h"
#include "softrdma/fabric/xrc.h"
#include "softrdma/fabric/roce/link.h"
#include "softrdma/verbs/mr.h"

void roce_aim(struct sr_qp *qp, uint32_t srqn)
{
	qp->end.link->srqn = srqn;
	qp->end.link->is_astray = !sr_xrc_aim(seg_self, qp->s, srqn);
}

static enum roce_verdict take(void *context)
{
	struct sr_qp *qp = context;
	const struct roce_link *l = qp->end.link;

	if (sr_qp_is_xrc_recv(qp) && !sr_xrc_aim_receive(seg_self, qp->s, l->srqn))
		return ROCE_INVALID;
	return sr_rq_take(sr_peer_self, qp->slot, &qp->end.link->taken) ? ROCE_OK : ROCE_NOT_READY;
}

static struct seg_cqe *begin_entry(struct sr_qp *qp)
{
	const struct sr_taken *t = &qp->end.link->taken;
	struct seg_cqe *e = sr_completion_begin(sr_peer_self, qp->s->recv_cq);

	if (!e)
		return NULL;
	sr_taken_name(t, e);
	e->inl_len = 0;
	return e;
}

static void end_entry(struct sr_qp *qp, const struct seg_cqe *e)
{
	if (e)
		sr_completion_end(sr_peer_self, qp->s->recv_cq, e);
	sr_rq_done(sr_peer_self, qp->slot, &qp->end.link->taken);
}

/* The receive fails; returns what the requester is told. */
static enum roce_verdict fail_receive(struct sr_qp *qp, enum ibv_wc_status status,
				      enum roce_verdict verdict)
{
	uint64_t wr_id = qp->end.link->taken.rqe->wr_id;
	struct seg_cqe *e = begin_entry(qp);

	if (e)
		sr_completion_error(e, qp->ib.qp_base.qp_num, wr_id, status);
	end_entry(qp, e);
	return verdict;
}

static enum roce_verdict scatter(void *context, uint32_t offset, const uint8_t *data, uint32_t n)
{
	struct sr_qp *qp = context;
	const struct sr_taken *t = &qp->end.link->taken;
	uint64_t va;

	for (uint32_t i = 0; i < t->rqe->n_sge && n; i++) {
		const struct ibv_sge *s = &t->rqe->sge[i];
		uint32_t part;

		if (offset >= s->length) {
			offset -= s->length;
			continue;
		}
		if (!sr_mr_allows(seg_self, s->lkey, t->pd, s->addr, s->length,
				  IBV_ACCESS_LOCAL_WRITE, &va))
			return fail_receive(qp, IBV_WC_LOC_PROT_ERR, ROCE_BROKEN);
		part = s->length - offset < n ? s->length - offset : n;
		memcpy((uint8_t *)(uintptr_t)va + offset, data, part);
		data += part;
		n -= part;
		offset = 0;
	}
	if (!n)
		return ROCE_OK;
	return sr_qp_is_lossy(qp) ? ROCE_INVALID /* IBA 9.8.2.2: dropped, and the receive stays */
				  : fail_receive(qp, IBV_WC_LOC_LEN_ERR, ROCE_INVALID);
}

static enum roce_verdict deliver(void *context, const struct roce_packet *last, bool is_write,
				 uint32_t length)
{
	struct sr_qp *qp = context;
	unsigned traits = roce_traits(last->opcode);
	struct seg_cqe *e;

	if (traits & ROCE_HAS_KEY &&
	    !sr_mr_invalidate(seg_self, last->invalidate_key, qp->s->pd, qp->ib.qp_base.qp_num))
		return fail_receive(qp, IBV_WC_REM_INV_REQ_ERR, ROCE_DENIED);
	e = begin_entry(qp);
	if (e) {
		e->wc = (struct ibv_wc){
			.wr_id = qp->end.link->taken.rqe->wr_id,
			.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
			.byte_len = length,
			.qp_num = qp->ib.qp_base.qp_num,
			.src_qp = qp->end.link->dest_qpn,
			.wc_flags = traits & ROCE_HAS_IMM   ? IBV_WC_WITH_IMM
				    : traits & ROCE_HAS_KEY ? IBV_WC_WITH_INV
							    : 0,
		};
		if (traits & ROCE_HAS_KEY)
			e->wc.invalidated_rkey = last->invalidate_key;
		else
			e->wc.imm_data = last->imm;
		e->solicited = last->solicited;
	}
	end_entry(qp, e);
	return ROCE_OK;
}

/* The address of a remote range, or NULL. Under the shared lock, or for READs under sq_lock. */
static uint8_t *find_range(const struct sr_qp *qp, uint32_t need, uint32_t rkey, uint64_t va,
			   uint32_t n)
{
	uint64_t at;

	if ((qp->s->access & need) != need || rkey & MR_LKEY_BIT ||
	    !sr_mr_allows(seg_self, rkey, qp->s->pd, va, n, need, &at) ||
	    !sr_mr_window_fits(seg_self, rkey, qp->ib.qp_base.qp_num))
		return NULL;
	return (uint8_t *)(uintptr_t)at;
}

static uint32_t right_for(enum roce_access need)
{
	switch (need) {
	case ROCE_MAY_WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case ROCE_MAY_READ:
		return IBV_ACCESS_REMOTE_READ;
	default:
		return IBV_ACCESS_REMOTE_ATOMIC;
	}
}

/* An empty range needs no key, but the right: IBA 9.7.5.2.6. */
static enum roce_verdict check(void *context, enum roce_access need, uint32_t rkey, uint64_t va,
			       uint32_t length)
{
	const struct sr_qp *qp = context;
	uint32_t right = right_for(need);

	if (qp->end.link->is_astray)
		return ROCE_INVALID;
	if ((qp->s->access & right) != right)
		return ROCE_DENIED;
	return !length || find_range(qp, right, rkey, va, length) ? ROCE_OK : ROCE_DENIED;
}

static enum roce_verdict write_memory(void *context, uint32_t rkey, uint64_t va,
				      const uint8_t *data, uint32_t n)
{
	const struct sr_qp *qp = context;
	uint8_t *to;

	if (qp->end.link->is_astray)
		return ROCE_INVALID;
	to = find_range(qp, IBV_ACCESS_REMOTE_WRITE, rkey, va, n);
	if (!to)
		return ROCE_DENIED;
	memcpy(to, data, n);
	return ROCE_OK;
}

bool roce_read_memory(const struct sr_qp *qp, uint32_t rkey, uint64_t va, uint8_t *to, uint32_t n)
{
	const uint8_t *from = n ? find_range(qp, IBV_ACCESS_REMOTE_READ, rkey, va, n) : to;

	if (!from)
		return false;
	if (n)
		memcpy(to, from, n);
	return true;
}

/* Atomic among all queue pairs of the device, for peers on this host too. */
static enum roce_verdict atomic(void *context, const struct roce_packet *p, uint64_t *ret_original)
{
	uint8_t *at = find_range(context, IBV_ACCESS_REMOTE_ATOMIC, p->rkey, p->va, 8);
	uint64_t now;

	if (!at)
		return ROCE_DENIED;
	sr_lock_take(&seg_self->atomics);
	memcpy(&now, at, 8);
	*ret_original = now;
	if (p->opcode == ROCE_FETCH_ADD)
		now += p->swap_add;
	else if (now == p->compare)
		now = p->swap_add;
	memcpy(at, &now, 8);
	sr_lock_give(&seg_self->atomics);
	return ROCE_OK;
}

const struct roce_host roce_host = {
	.take = take,
	.scatter = scatter,
	.deliver = deliver,
	.check = check,
	.write = write_memory,
	.atomic = atomic,
};
