/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "softrdma/fabric/roce/link.h"
#include "softrdma/fabric/roce/local.h"
#include "softrdma/verbs/mr.h"

static bool is_sink(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static enum roce_kind kind_of(uint32_t opcode)
{
	switch ((enum ibv_wr_opcode)opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return ROCE_WRITE;
	case IBV_WR_RDMA_READ:
		return ROCE_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return ROCE_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return ROCE_ADD;
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return ROCE_LOCAL;
	default:
		return ROCE_SEND;
	}
}

/* The memory of an element; false: the key does not allow it. */
static bool find_memory(const struct sr_qp *qp, const struct sr_wqe *w, const struct ibv_sge *s,
			uint8_t **ret)
{
	uint32_t need = is_sink(w->opcode) ? IBV_ACCESS_LOCAL_WRITE : 0;
	uint64_t va;

	if (!sr_mr_allows(seg_self, s->lkey, qp->s->pd, s->addr, s->length, need, &va))
		return false;
	*ret = (uint8_t *)(uintptr_t)va;
	return true;
}

static enum ibv_wc_status check_data(const struct sr_qp *qp, const struct sr_wqe *w,
				     uint32_t *ret_length)
{
	uint64_t length = 0;
	uint8_t *memory;

	*ret_length = w->inl_len;
	if (w->flags & IBV_SEND_INLINE)
		return IBV_WC_SUCCESS;
	for (uint32_t i = 0; i < w->n_sge; i++) {
		length += w->sge[i].length;
		if (w->sge[i].length && !find_memory(qp, w, &w->sge[i], &memory))
			return IBV_WC_LOC_PROT_ERR;
	}
	*ret_length = (uint32_t)length;
	return length > DEV_MAX_MSG ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

static enum ibv_wc_status check(const struct sr_qp *qp, const struct sr_wqe *w,
				uint32_t *ret_length)
{
	enum ibv_wc_status status = check_data(qp, w, ret_length);
	enum roce_kind kind = kind_of(w->opcode);

	if (!status && is_sink(w->opcode) && !qp->attr.max_rd_atomic)
		status = IBV_WC_LOC_QP_OP_ERR;
	if (!status && (kind == ROCE_SWAP || kind == ROCE_ADD) && *ret_length != 8)
		status = IBV_WC_LOC_LEN_ERR;
	return status;
}

struct roce_request roce_describe(struct sr_qp *qp, struct sr_wqe *w)
{
	struct roce_request q = {
		.kind = (uint8_t)kind_of(w->opcode),
		.has_imm = w->opcode == IBV_WR_SEND_WITH_IMM ||
			   w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM,
		.has_invalidate = w->opcode == IBV_WR_SEND_WITH_INV,
		.is_solicited = w->flags & IBV_SEND_SOLICITED,
		.is_fenced = w->flags & IBV_SEND_FENCE,
		.imm = w->imm,
		.rkey = w->rkey,
		.va = w->remote_addr,
	};
	enum ibv_wc_status status = q.kind == ROCE_LOCAL ? IBV_WC_SUCCESS : check(qp, w, &q.length);

	w->byte_len = status ? status : q.length; /* the status with which it fails here */
	q.failure = status ? ROCE_FAILED_HERE : ROCE_NO_FAILURE;
	if (q.kind != ROCE_SWAP && q.kind != ROCE_ADD)
		return q;
	q.swap_add = q.kind == ROCE_ADD ? sr_qp_extra(qp, w)->atomic.compare_add
					: sr_qp_extra(qp, w)->atomic.swap;
	q.compare = q.kind == ROCE_ADD ? 0 : sr_qp_extra(qp, w)->atomic.compare_add;
	return q;
}

/* Copies between a buffer and [offset, offset + n) of the request's elements. */
static bool copy(const struct sr_qp *qp, const struct sr_wqe *w, uint32_t offset, uint8_t *buffer,
		 uint32_t n, bool into)
{
	for (uint32_t i = 0; i < w->n_sge && n; i++) {
		const struct ibv_sge *s = &w->sge[i];
		uint32_t part;
		uint8_t *memory;

		if (offset >= s->length) {
			offset -= s->length;
			continue;
		}
		if (!find_memory(qp, w, s, &memory))
			return false;
		part = s->length - offset < n ? s->length - offset : n;
		if (into)
			memcpy(memory + offset, buffer, part);
		else
			memcpy(buffer, memory + offset, part);
		buffer += part;
		n -= part;
		offset = 0;
	}
	return !n;
}

bool roce_gather(const struct sr_qp *qp, const struct sr_wqe *w, uint32_t offset, uint8_t *to,
		 uint32_t n)
{
	if (!(w->flags & IBV_SEND_INLINE))
		return copy(qp, w, offset, to, n, false);
	memcpy(to, w->data + offset, n);
	return true;
}

bool roce_scatter(const struct sr_qp *qp, const struct sr_wqe *w, uint32_t offset,
		  const uint8_t *from, uint32_t n)
{
	return copy(qp, w, offset, (uint8_t *)(uintptr_t)from, n, true);
}

enum ibv_wc_status roce_execute_local(struct sr_qp *qp, const struct sr_wqe *w)
{
	uint32_t qpn = qp->ib.qp_base.qp_num;

	if (w->opcode == IBV_WR_BIND_MW)
		return sr_mr_bind(sr_qp_extra(qp, w)->bind.mw, w->rkey, qpn,
				  &sr_qp_extra(qp, w)->bind.info);
	return sr_mr_invalidate(seg_self, w->imm, qp->s->pd, qpn) ? IBV_WC_SUCCESS
								  : IBV_WC_LOC_QP_OP_ERR;
}
