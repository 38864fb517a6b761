/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: creation, destruction, completion bookkeeping, and what the helper
 * does for them. The state machine is in qp_state.c, posting in post.c, execution
 * in x_shm.c.
 *
 * A QP has two halves. The private half (struct qp) holds the send queue and is
 * guarded by sq_lock; the shared half (struct seg_qp) holds what the peer's engine
 * needs to deliver to us and is guarded by its own crash-safe lock. Going to ERR
 * is always finished by the owner: a peer that finds an error in us only sets the
 * state and kicks our helper.
 *
 * Order of locks: table_lock, sq_lock, one shared QP lock, SRQ lock, CQ lock.
 */
#include "qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lock.h"
#include "peer.h"
#include "removal.h"
#include "rq.h"
#include "verbs_mr.h"

/* Guards qp_table against destruction. First in the order of locks. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
struct qp *qp_table[SEG_MAX_QP];
static uint32_t next_slot;

void qp_table_lock(void)
{
	pthread_mutex_lock(&table_lock);
}

void qp_table_unlock(void)
{
	pthread_mutex_unlock(&table_lock);
}

uint32_t qp_slot_of(const struct seg *s, uint32_t qpn)
{
	for (uint32_t i = 0; i < SEG_MAX_BASE; i++)
		if (s->base[i] == qpn >> 8)
			return i * 256 + (qpn & 0xff);
	return 0;
}

/* ---- creation -------------------------------------------------------------- */

/* Rotates through the numbers of this process, so that a QPN is not reused soon. */
static int take_slot(struct qp *qp)
{
	uint32_t n = atomic_load(&seg_self->n_base) * 256, found = UINT32_MAX;

	qp_table_lock();
	for (uint32_t i = 0; i < n && found == UINT32_MAX; i++, next_slot++)
		if (!qp_table[next_slot % n])
			found = next_slot % n;
	if (found != UINT32_MAX) {
		qp->slot = found;
		qp->s = &seg_self->qp[found];
		qp_table[found] = qp;
	}
	qp_table_unlock();
	if (found != UINT32_MAX)
		return 0;
	if (n == SEG_MAX_QP || node_reserve_qps(n + 1))
		return -ENOMEM;
	return take_slot(qp);
}

static uint32_t round_pow2(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

static int check_init(const struct ibv_qp_init_attr_ex *a)
{
	const struct ibv_qp_cap *c = &a->cap;

	if (a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
				       IBV_QP_INIT_ATTR_CREATE_FLAGS) ||
	    (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags) ||
	    (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	     a->send_ops_flags & (IBV_QP_EX_WITH_TSO | IBV_QP_EX_WITH_ATOMIC_WRITE)))
		return EOPNOTSUPP;
	if (a->qp_type != IBV_QPT_RC ||
	    (dev_is_siw() && a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EOPNOTSUPP;
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq || !a->recv_cq)
		return EINVAL;
	if (c->max_send_wr > DEV_MAX_WR || c->max_recv_wr > DEV_MAX_WR ||
	    c->max_send_sge > DEV_MAX_SGE || c->max_recv_sge > DEV_MAX_SGE ||
	    c->max_inline_data > DEV_MAX_INLINE)
		return EINVAL;
	return 0;
}

static int open_sq(struct qp *qp)
{
	size_t data = qp->cap.max_send_sge * sizeof(struct ibv_sge);
	uint32_t size = round_pow2(qp->cap.max_send_wr);

	if (data < qp->cap.max_inline_data)
		data = qp->cap.max_inline_data;
	qp->wqe_stride = (uint32_t)((offsetof(struct wqe, data) + data + 63) & ~(size_t)63);
	qp->wqe_mask = size - 1;
	qp->wqes = aligned_alloc(64, (size_t)size * qp->wqe_stride);
	return qp->wqes ? 0 : -ENOMEM;
}

static int open_rq(struct qp *qp)
{
	struct seg_qp *s = qp->s;
	uint32_t size = round_pow2(qp->cap.max_recv_wr);

	s->rq.stride = (uint32_t)(sizeof(struct seg_rqe) +
				  qp->cap.max_recv_sge * sizeof(struct ibv_sge));
	s->rq.mask = size - 1;
	qp->rq_bytes = (size_t)size * s->rq.stride;
	s->rq.ring = seg_alloc(qp->rq_bytes);
	return s->rq.ring ? 0 : -ENOMEM;
}

static void open_shared(struct qp *qp, uint32_t pd)
{
	struct seg_qp *s = qp->s;

	atomic_store(&s->state, IBV_QPS_RESET);
	atomic_store(&s->events, 0);
	atomic_store(&s->waiter, 0);
	atomic_store(&s->established, 0);
	atomic_store(&s->claim, 0);
	s->dest_qpn = s->access = s->max_dest_rd = s->min_rnr_timer = 0;
	s->pd = pd;
	s->recv_cq = qp->recv_cq->slot;
	s->srq = qp->srq ? qp->srq->slot + 1 : 0;
	atomic_store(&s->rq.posted, 0);
	atomic_store(&s->rq.head, 0);
	atomic_store(&s->rq.polled, 0);
}

static void fill_ib(struct qp *qp, struct ibv_context *c, const struct ibv_qp_init_attr_ex *a)
{
	uint32_t qpn = (uint32_t)seg_self->base[qp->slot / 256] << 8 | qp->slot % 256;

	qp->ib.qp_base = (struct ibv_qp){
		.context = c,
		.qp_context = a->qp_context,
		.pd = a->pd,
		.send_cq = a->send_cq,
		.recv_cq = a->recv_cq,
		.srq = a->srq,
		.handle = qp->slot,
		.qp_num = qpn,
		.state = IBV_QPS_RESET,
		.qp_type = a->qp_type,
	};
	pthread_mutex_init(&qp->ib.qp_base.mutex, NULL);
	pthread_cond_init(&qp->ib.qp_base.cond, NULL);
	qp_ex_init(qp);
	atomic_store(&qp->s->qpn, qpn);
}

static void free_qp(struct qp *qp)
{
	pthread_mutex_destroy(&qp->sq_lock);
	pthread_mutex_destroy(&qp->rq_lock);
	free(qp->wqes);
	free(qp->extras);
	free(qp);
}

static struct qp *new_qp(const struct ibv_qp_init_attr_ex *a)
{
	struct qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->send_cq = to_cq(a->send_cq);
	qp->recv_cq = to_cq(a->recv_cq);
	qp->srq = a->srq ? to_srq(a->srq) : NULL;
	qp->sig_all = a->sq_sig_all;
	qp->cap = a->cap;
	if (!qp->cap.max_send_wr)
		qp->cap.max_send_wr = 1;
	if (!qp->cap.max_recv_wr || qp->srq)
		qp->cap.max_recv_wr = qp->srq ? 0 : 1;
	if (!qp->cap.max_send_sge)
		qp->cap.max_send_sge = 1;
	if (!qp->cap.max_recv_sge)
		qp->cap.max_recv_sge = 1;
	pthread_mutex_init(&qp->sq_lock, NULL);
	pthread_mutex_init(&qp->rq_lock, NULL);
	if (open_sq(qp) || take_slot(qp)) {
		free_qp(qp);
		return NULL;
	}
	return qp;
}

static void give_slot(struct qp *qp)
{
	qp_table_lock();
	qp_table[qp->slot] = NULL;
	qp_table_unlock();
}

static void set_live(struct qp *qp, bool live)
{
	qp_table_lock();
	qp->live = live;
	qp_table_unlock();
}

struct ibv_qp *qp_create_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	int err = check_init(a);
	struct qp *qp;

	if (err) {
		errno = err;
		return NULL;
	}
	qp = new_qp(a);
	if (!qp) {
		errno = ENOMEM;
		return NULL;
	}
	rq_lock(peer_self, qp->slot); /* a peer of the slot's last owner may still look */
	open_shared(qp, to_pd(a->pd)->number);
	err = open_rq(qp);
	rq_unlock(peer_self, qp->slot);
	if (err) {
		give_slot(qp);
		free_qp(qp);
		errno = ENOMEM;
		return NULL;
	}
	fill_ib(qp, c, a);
	atomic_fetch_add(&to_pd(a->pd)->users, 1);
	atomic_fetch_add(&qp->send_cq->users, 1);
	atomic_fetch_add(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, 1);
	removal_hold(HOLD_QP);
	a->cap = qp->cap;
	set_live(qp, true);
	return &qp->ib.qp_base;
}

struct ibv_qp_init_attr_ex qp_attr_ex(const struct ibv_qp_init_attr *init, struct ibv_pd *pd)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_context = init->qp_context,
		.send_cq = init->send_cq,
		.recv_cq = init->recv_cq,
		.srq = init->srq,
		.cap = init->cap,
		.qp_type = init->qp_type,
		.sq_sig_all = init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
}

SR_API struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex a = qp_attr_ex(init, pd);
	struct ibv_qp *qp = qp_create_ex(pd->context, &a);

	if (qp)
		init->cap = a.cap;
	return qp;
}

SR_API struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ib)
{
	return &to_qp(ib)->ib;
}

SR_API int ibv_destroy_qp(struct ibv_qp *ib)
{
	struct qp *qp = to_qp(ib);

	set_live(qp, false); /* the helper passes it by now; pollers may still meet it */
	timer_stop(&qp->timer);
	timer_stop(&qp->late_timer);
	pthread_mutex_lock(&qp->sq_lock); /* lets a post in progress finish */
	rq_lock(peer_self, qp->slot);
	atomic_store(&qp->s->state, IBV_QPS_RESET);
	atomic_store(&qp->s->qpn, 0);
	rq_unlock(peer_self, qp->slot);
	pthread_mutex_unlock(&qp->sq_lock);
	qp_drop_completions(qp);
	async_forget_qp(ib, &qp->async_delivered);
	seg_free(qp->s->rq.ring, qp->rq_bytes);
	give_slot(qp);
	peer_unref(qp->peer);
	atomic_fetch_sub(&to_pd(ib->pd)->users, 1);
	atomic_fetch_sub(&qp->send_cq->users, 1);
	atomic_fetch_sub(&qp->recv_cq->users, 1);
	if (qp->srq)
		atomic_fetch_sub(&qp->srq->users, 1);
	pthread_mutex_destroy(&ib->mutex);
	pthread_cond_destroy(&ib->cond);
	free_qp(qp);
	removal_unhold(HOLD_QP);
	return 0;
}

void qp_drop_completions(struct qp *qp)
{
	uint32_t claimed;

	cq_drop_qp(qp->send_cq, qp->slot);
	if (qp->recv_cq != qp->send_cq)
		cq_drop_qp(qp->recv_cq, qp->slot);
	claimed = rq_unclaim(qp->slot);
	if (qp->srq && claimed != UINT32_MAX)
		srq_give(qp->srq, claimed);
}

/* ---- completions ----------------------------------------------------------- */

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

void qp_complete(struct qp *qp, const struct wqe *w, uint64_t freed, enum ibv_wc_status status,
		 uint32_t byte_len)
{
	uint32_t qpn = qp->ib.qp_base.qp_num;
	struct seg_cqe *e;

	if (!status && !qp->sig_all && !(w->flags & IBV_SEND_SIGNALED))
		return;
	e = cq_push_begin(peer_self, qp->send_cq->slot);
	if (!e)
		return;
	if (status) {
		cqe_error(e, qpn, w->wr_id, status);
	} else {
		e->wc = (struct ibv_wc){.wr_id = w->wr_id,
					.opcode = wc_opcode(w->opcode),
					.byte_len = byte_len,
					.qp_num = qpn};
		e->solicited = 0;
		e->inl_len = 0;
	}
	e->seq = freed;
	e->qp_slot = (uint16_t)qp->slot;
	e->kind = SEG_CQE_SEND;
	cq_push_end(peer_self, qp->send_cq->slot, e);
}

/* The payload of a small SEND: from the entry into the receive's buffers. */
static void scatter(const struct seg_rqe *r, uint32_t pd, const struct seg_cqe *e)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < r->n_sge && done < e->inl_len; i++) {
		uint32_t len = e->inl_len - done < r->sge[i].length ? e->inl_len - done
								    : r->sge[i].length;
		uint64_t va;

		/* checked when it was delivered; deregistered since: the bytes are lost */
		if (len && mr_allows(seg_self, r->sge[i].lkey, pd, r->sge[i].addr, len,
				     IBV_ACCESS_LOCAL_WRITE, &va))
			memcpy((void *)(uintptr_t)va, e->inl + done, len);
		done += len;
	}
}

void qp_on_polled(const struct seg_cqe *e)
{
	struct qp *qp = qp_table[e->qp_slot]; /* stays while entries of it are in the CQ */

	if (e->kind == SEG_CQE_SEND) {
		atomic_store_explicit(&qp->freed, e->seq, memory_order_release);
		return;
	}
	if (qp->srq) {
		struct seg_srq *s = qp->srq->s;

		if (e->inl_len)
			scatter(seg_rqe(seg_self, s->ring, s->stride, e->rqe_slot), s->pd, e);
		srq_give(qp->srq, e->rqe_slot);
		return;
	}
	if (e->inl_len)
		scatter(seg_rqe(seg_self, qp->s->rq.ring, qp->s->rq.stride, e->rqe_slot), qp->s->pd,
			e);
	atomic_store_explicit(&qp->s->rq.polled, e->seq + 1, memory_order_release);
}

void qp_on_dropped(const struct seg_cqe *e)
{
	struct qp *qp = qp_table[e->qp_slot];

	if (qp->srq)
		srq_give(qp->srq, e->rqe_slot);
}

void qp_forget(void)
{
	pthread_mutex_init(&table_lock, NULL);
	memset(qp_table, 0, sizeof(qp_table));
}
