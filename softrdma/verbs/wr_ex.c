/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wr_start takes the send lock, wr_complete or wr_abort gives it. In between, each
 * builder call queues one request, and the setter calls after it fill in its data.
 * The first error is remembered and makes wr_complete fail with nothing posted:
 * unlike the classic call this interface posts all or nothing (ibv_wr_post(3)).
 */
#include "softrdma/verbs/post.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/verbs/wr_ex.h"

#include <errno.h>

static struct sr_qp *from_ex(struct ibv_qp_ex *ib)
{
	return container_of(ib, struct sr_qp, ib);
}

static void wr_start(struct ibv_qp_ex *ib)
{
	struct sr_qp *qp = from_ex(ib);

	pthread_mutex_lock(&qp->sq_lock);
	qp->ex_start = qp->head;
	qp->ex_error = sr_wqe_may_post(qp) ? 0 : EINVAL;
}

static int wr_complete(struct ibv_qp_ex *ib)
{
	struct sr_qp *qp = from_ex(ib);
	int r = qp->ex_error;

	if (r)
		qp->head = qp->ex_start;
	if (qp->exec != qp->head)
		sr_qp_run(qp);
	pthread_mutex_unlock(&qp->sq_lock);
	return r;
}

static void wr_abort(struct ibv_qp_ex *ib)
{
	struct sr_qp *qp = from_ex(ib);

	qp->head = qp->ex_start;
	pthread_mutex_unlock(&qp->sq_lock);
}

static bool has_operation(const struct sr_qp *qp, enum ibv_wr_opcode opcode)
{
	if (sr_qp_is_datagram(qp))
		return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
	return !sr_qp_is_lossy(qp) || sr_wqe_is_lossy(opcode);
}

/* Queues a request. NULL: there is an error already, which wr_complete returns. */
static struct sr_wqe *begin(struct ibv_qp_ex *ib, enum ibv_wr_opcode opcode)
{
	struct sr_qp *qp = from_ex(ib);
	struct sr_wqe *w;

	if (!qp->ex_error && !has_operation(qp, opcode))
		qp->ex_error = EINVAL;
	w = qp->ex_error ? NULL : sr_wqe_next(qp);

	if (!w) {
		if (!qp->ex_error)
			qp->ex_error = ENOMEM;
		return NULL;
	}
	if (sr_qp_is_datagram(qp) && sr_wqe_datagram(qp, w, NULL, 0, 0) == ENOMEM) {
		qp->ex_error = ENOMEM;
		return NULL;
	}
	if (sr_qp_is_xrc_send(qp))
		sr_wqe_srqn(qp, w, 0);
	w->wr_id = ib->wr_id;
	w->flags = (uint8_t)(ib->wr_flags & ~(unsigned)IBV_SEND_INLINE);
	w->opcode = opcode;
	w->stage = WQE_QUEUED;
	w->is_fated = false;
	w->moved = 0;
	w->n_sge = 0;
	w->inl_len = 0;
	qp->head++;
	return w;
}

/* The request to which the setters apply. */
static struct sr_wqe *current(struct ibv_qp_ex *ib)
{
	struct sr_qp *qp = from_ex(ib);

	return qp->ex_error || qp->head == qp->ex_start ? NULL : sr_qp_wqe(qp, qp->head - 1);
}

static void rdma(struct ibv_qp_ex *ib, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr,
		 uint32_t imm)
{
	struct sr_wqe *w = begin(ib, op);

	if (!w)
		return;
	w->rkey = rkey;
	w->remote_addr = addr;
	w->imm = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr)
{
	rdma(ib, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr)
{
	rdma(ib, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, __be32 imm)
{
	rdma(ib, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_send(struct ibv_qp_ex *ib)
{
	rdma(ib, IBV_WR_SEND, 0, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ib, __be32 imm)
{
	rdma(ib, IBV_WR_SEND_WITH_IMM, 0, 0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ib, uint32_t rkey)
{
	rdma(ib, IBV_WR_SEND_WITH_INV, 0, 0, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ib, uint32_t rkey)
{
	rdma(ib, IBV_WR_LOCAL_INV, 0, 0, rkey);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct sr_wqe *w = begin(ib, IBV_WR_ATOMIC_CMP_AND_SWP);

	if (!w)
		return;
	w->rkey = rkey;
	w->remote_addr = addr;
	from_ex(ib)->ex_error = sr_wqe_atomic(from_ex(ib), w, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct sr_wqe *w = begin(ib, IBV_WR_ATOMIC_FETCH_AND_ADD);

	if (!w)
		return;
	w->rkey = rkey;
	w->remote_addr = addr;
	from_ex(ib)->ex_error = sr_wqe_atomic(from_ex(ib), w, add, 0);
}

static void wr_bind_mw(struct ibv_qp_ex *ib, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct sr_wqe *w = begin(ib, IBV_WR_BIND_MW);

	if (!w)
		return;
	w->rkey = rkey;
	from_ex(ib)->ex_error = mw->type == IBV_MW_TYPE_2 ? sr_wqe_bind(from_ex(ib), w, mw, info)
							  : EINVAL;
}

/* ---- data ------------------------------------------------------------------ */

static void wr_set_sge_list(struct ibv_qp_ex *ib, size_t n, const struct ibv_sge *list)
{
	struct sr_qp *qp = from_ex(ib);
	struct sr_wqe *w = current(ib);

	if (!w)
		return;
	if (n > qp->cap.max_send_sge) {
		qp->ex_error = EINVAL;
		return;
	}
	w->n_sge = (uint8_t)n;
	sr_copy_sge_list(w->sge, list, (uint32_t)n);
}

static void wr_set_sge(struct ibv_qp_ex *ib, uint32_t lkey, uint64_t addr, uint32_t len)
{
	struct ibv_sge sge = {.addr = addr, .length = len, .lkey = lkey};

	wr_set_sge_list(ib, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ib, size_t n, const struct ibv_data_buf *list)
{
	struct sr_qp *qp = from_ex(ib);
	struct sr_wqe *w = current(ib);

	if (!w)
		return;
	w->flags |= IBV_SEND_INLINE;
	w->inl_len = 0;
	for (size_t i = 0; i < n && !qp->ex_error; i++)
		qp->ex_error = sr_wqe_inline(qp, w, list[i].addr, list[i].length);
}

static void wr_set_inline_data(struct ibv_qp_ex *ib, void *addr, size_t len)
{
	struct ibv_data_buf buf = {.addr = addr, .length = len};

	wr_set_inline_data_list(ib, 1, &buf);
}

/* Operations of other QP types. */

static void wr_set_ud_addr(struct ibv_qp_ex *ib, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct sr_qp *qp = from_ex(ib);
	struct sr_wqe *w = current(ib);

	if (w)
		qp->ex_error = sr_qp_is_datagram(qp) ? sr_wqe_datagram(qp, w, ah, qpn, qkey)
						     : EINVAL;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ib, uint32_t srqn)
{
	struct sr_qp *qp = from_ex(ib);
	struct sr_wqe *w = current(ib);

	if (w && sr_qp_is_xrc_send(qp))
		sr_wqe_srqn(qp, w, srqn);
	else if (w)
		qp->ex_error = EINVAL;
}

static void unsupported(struct ibv_qp_ex *ib)
{
	from_ex(ib)->ex_error = EOPNOTSUPP;
}

static void wr_send_tso(struct ibv_qp_ex *ib, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	unsupported(ib);
}

static void wr_atomic_write(struct ibv_qp_ex *ib, uint32_t rkey, uint64_t addr, const void *value)
{
	unsupported(ib);
}

void sr_qp_ex_init(struct sr_qp *qp)
{
	struct ibv_qp_ex *ib = &qp->ib;

	ib->wr_start = wr_start;
	ib->wr_complete = wr_complete;
	ib->wr_abort = wr_abort;
	ib->wr_rdma_read = wr_rdma_read;
	ib->wr_rdma_write = wr_rdma_write;
	ib->wr_rdma_write_imm = wr_rdma_write_imm;
	ib->wr_send = wr_send;
	ib->wr_send_imm = wr_send_imm;
	ib->wr_send_inv = wr_send_inv;
	ib->wr_local_inv = wr_local_inv;
	ib->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ib->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ib->wr_bind_mw = wr_bind_mw;
	ib->wr_set_sge = wr_set_sge;
	ib->wr_set_sge_list = wr_set_sge_list;
	ib->wr_set_inline_data = wr_set_inline_data;
	ib->wr_set_inline_data_list = wr_set_inline_data_list;
	ib->wr_send_tso = wr_send_tso;
	ib->wr_set_ud_addr = wr_set_ud_addr;
	ib->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ib->wr_atomic_write = wr_atomic_write;
}
