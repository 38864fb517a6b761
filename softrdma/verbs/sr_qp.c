/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: creation, destruction, and the helper's work for them. The state machine is in
 * qp_state.c, posting in post.c, running the queue in qp_run.c, completions in qp_complete.c.
 *
 * A QP has two halves. The private half (struct sr_qp) holds the send queue and is guarded by
 * sq_lock. The shared half (struct seg_qp) holds what a peer's engine needs to deliver to this QP
 * and is guarded by its own crash-safe lock. The owner always finishes a move to ERR: a peer that
 * finds an error of this QP only sets the state and kicks the owner's helper.
 *
 * Order of locks: table_lock, sq_lock, one shared QP lock, SRQ lock, CQ lock.
 */
#include "softrdma/verbs/sr_qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/cq_poll.h"
#include "softrdma/verbs/datagram.h"
#include "softrdma/verbs/datagram_out.h"
#include "softrdma/verbs/multicast.h"
#include "softrdma/verbs/qp_table.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/verbs/srq.h"
#include "softrdma/verbs/wr_ex.h"
#include "softrdma/verbs/xrc.h"
#include "softrdma/process/likeness.h"

/* Under the table lock: how many slots were taken so far, and each slot's turn; 0: never. */
static uint32_t n_taken, taken_at[SEG_MAX_QP];

/* ---- creation -------------------------------------------------------------- */

/* Whether it is in the last half of the queue pairs that were created. */
static bool is_recent(uint32_t slot, uint32_t n)
{
	return taken_at[slot] && n_taken - taken_at[slot] < n / 2;
}

static uint32_t random32(void)
{
	uint32_t random;

	return getrandom(&random, sizeof(random), 0) == sizeof(random) ? random : n_taken * 40503;
}

/* The free slot that rests longest, or UINT32_MAX. */
static uint32_t oldest_slot(uint32_t n)
{
	uint32_t found = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++)
		if (!sr_qp_table[i] && (found == UINT32_MAX || taken_at[i] < taken_at[found]))
			found = i;
	return found;
}

/*
 * At random, because a number that is hard to guess keeps strangers out, and not one that was in
 * use lately: peers on other hosts remember connections by it for a while.
 */
static uint32_t free_slot(uint32_t n)
{
	uint32_t n_free = 0, which;

	for (uint32_t i = 0; i < n; i++)
		n_free += !sr_qp_table[i] && !is_recent(i, n);
	if (!n_free)
		return oldest_slot(n);
	which = random32() % n_free;
	for (uint32_t i = 0;; i++)
		if (!sr_qp_table[i] && !is_recent(i, n) && !which--)
			return i;
}

static int take_slot(struct sr_qp *qp)
{
	uint32_t n = atomic_load(&seg_self->n_base) * 256, found;

	sr_qp_table_lock();
	found = free_slot(n);
	if (found != UINT32_MAX) {
		qp->slot = found;
		qp->s = &seg_self->qp[found];
		sr_qp_table[found] = qp;
		taken_at[found] = ++n_taken;
	}
	sr_qp_table_unlock();
	if (found != UINT32_MAX)
		return 0;
	if (n == SEG_MAX_QP || sr_node_reserve_qps(n + 1))
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

static bool is_type(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* The operations that ibv_wr_* shall have: those of UC are the ones with an opcode (IBA table 38).
 */
static bool has_operations(const struct ibv_qp_init_attr_ex *a)
{
	return a->qp_type != IBV_QPT_UC || !(a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	       !(a->send_ops_flags &
		 (IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV));
}

/* Each kind has what it uses: XRC's sending half no receives, its receiving half nothing but a
 * domain (ibv_create_qp_ex(3)). */
static bool has_objects(const struct ibv_qp_init_attr_ex *a)
{
	if (a->qp_type == IBV_QPT_XRC_RECV)
		return a->comp_mask & IBV_QP_INIT_ATTR_XRCD && a->xrcd;
	if (a->comp_mask & IBV_QP_INIT_ATTR_XRCD || !(a->comp_mask & IBV_QP_INIT_ATTR_PD))
		return false;
	return a->pd && a->send_cq && (a->qp_type == IBV_QPT_XRC_SEND ? !a->srq : !!a->recv_cq);
}

static int check_init(const struct ibv_qp_init_attr_ex *a)
{
	const struct ibv_qp_cap *c = &a->cap;

	if (a->comp_mask &
		    ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
				IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS) ||
	    (a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && a->create_flags) ||
	    (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	     a->send_ops_flags & (IBV_QP_EX_WITH_TSO | IBV_QP_EX_WITH_ATOMIC_WRITE)))
		return EOPNOTSUPP;
	if (!is_type(a->qp_type) || !has_operations(a) ||
	    (sr_is_siw() &&
	     (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS || a->qp_type != IBV_QPT_RC)))
		return EOPNOTSUPP;
	if (!has_objects(a))
		return EINVAL;
	if (c->max_send_wr > DEV_MAX_WR || c->max_recv_wr > DEV_MAX_WR ||
	    c->max_send_sge > DEV_MAX_SGE || c->max_recv_sge > DEV_MAX_SGE ||
	    c->max_inline_data > DEV_MAX_INLINE)
		return EINVAL;
	return 0;
}

/* As adapters do: what fits into the work request anyhow. */
static uint32_t grant_inline(uint32_t asked, uint32_t stride)
{
	uint32_t fits = stride - (uint32_t)offsetof(struct sr_wqe, data);

	if (sr_is_strict())
		return asked;
	return fits < DEV_MAX_INLINE ? fits : DEV_MAX_INLINE;
}

static int open_sq(struct sr_qp *qp, struct sr_pd *pd)
{
	size_t data = qp->cap.max_send_sge * sizeof(struct ibv_sge);
	uint32_t size = round_pow2(qp->cap.max_send_wr);

	if (data < qp->cap.max_inline_data)
		data = qp->cap.max_inline_data;
	qp->wqe_stride = (uint32_t)((offsetof(struct sr_wqe, data) + data + 63) & ~(size_t)63);
	qp->cap.max_inline_data = grant_inline(qp->cap.max_inline_data, qp->wqe_stride);
	qp->wqe_mask = size - 1;
	qp->wqes = sr_domain_alloc(pd, (size_t)size * qp->wqe_stride, 64, DOMAIN_SEND_QUEUE,
				   &qp->wqes_of);
	if (sr_qp_is_xrc_send(qp))
		qp->extras = calloc(size, sizeof(*qp->extras));
	return qp->wqes && (qp->extras || !sr_qp_is_xrc_send(qp)) ? 0 : -ENOMEM;
}

static int open_rq(struct sr_qp *qp)
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

static void open_shared(struct sr_qp *qp)
{
	struct seg_qp *s = qp->s;

	atomic_store(&s->state, IBV_QPS_RESET);
	atomic_store(&s->events, 0);
	atomic_store(&s->waiter, 0);
	atomic_store(&s->established, 0);
	atomic_store(&s->claim, 0);
	s->dest = s->access = s->max_dest_rd = s->min_rnr_timer = 0;
	s->pd = qp->pd ? qp->pd->number : 0;
	s->recv_cq = qp->recv_cq ? qp->recv_cq->slot : 0;
	s->srq = qp->srq ? qp->srq->slot + 1 : 0;
	atomic_store(&s->type, qp->type);
	s->qkey = 0;
	s->domain = qp->xrcd ? qp->xrcd->name : (struct seg_domain){0};
	atomic_store(&s->rq.posted, 0);
	atomic_store(&s->rq.head, 0);
	atomic_store(&s->rq.polled, 0);
}

static void fill_ib(struct sr_qp *qp, struct ibv_context *c, const struct ibv_qp_init_attr_ex *a)
{
	uint32_t qpn = (uint32_t)seg_self->base[qp->slot / 256] << 8 | qp->slot % 256;

	qp->ib.qp_base = (struct ibv_qp){
		.context = c,
		.qp_context = a->qp_context,
		.pd = qp->pd ? a->pd : NULL,
		.send_cq = qp->send_cq ? a->send_cq : NULL,
		.recv_cq = qp->recv_cq ? a->recv_cq : NULL,
		.srq = qp->srq ? a->srq : NULL,
		.handle = qp->slot,
		.qp_num = qpn,
		.state = IBV_QPS_RESET,
		.qp_type = a->qp_type,
	};
	pthread_mutex_init(&qp->ib.qp_base.mutex, NULL);
	pthread_cond_init(&qp->ib.qp_base.cond, NULL);
	sr_qp_ex_init(qp);
	qp->name = seg_qp_name(qpn, qp->type);
	atomic_store(&qp->s->qpn, qpn);
}

static void free_qp(struct sr_qp *qp)
{
	pthread_mutex_destroy(&qp->sq_lock);
	pthread_mutex_destroy(&qp->rq_lock);
	sr_domain_free(qp->wqes_of, qp->wqes, DOMAIN_SEND_QUEUE);
	free(qp->extras);
	free(qp);
}

/* Sets the objects that the queue pair uses, and its capacity. */
static void fill_objects(struct sr_qp *qp, const struct ibv_qp_init_attr_ex *a)
{
	qp->type = a->qp_type;
	qp->cap = a->cap;
	if (sr_qp_is_xrc_recv(qp)) {
		qp->xrcd = sr_to_xrcd(a->xrcd);
		qp->cap.max_send_wr = qp->cap.max_recv_wr = 0;
		return;
	}
	qp->pd = sr_to_pd(a->pd);
	qp->send_cq = sr_to_cq(a->send_cq);
	if (!qp->cap.max_send_wr)
		qp->cap.max_send_wr = 1;
	if (sr_qp_is_xrc_send(qp)) {
		qp->cap.max_recv_wr = 0;
		return;
	}
	qp->recv_cq = sr_to_cq(a->recv_cq);
	qp->srq = a->srq ? sr_to_srq(a->srq) : NULL;
	if (!qp->cap.max_recv_wr || qp->srq)
		qp->cap.max_recv_wr = qp->srq ? 0 : 1;
}

static struct sr_qp *new_qp(const struct ibv_qp_init_attr_ex *a)
{
	struct sr_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	fill_objects(qp, a);
	qp->engine = sr_qp_is_datagram(qp) ? &sr_datagram_engine : sr_engine();
	qp->signals_all = a->sq_sig_all;
	if (!qp->cap.max_send_sge)
		qp->cap.max_send_sge = 1;
	if (!qp->cap.max_recv_sge)
		qp->cap.max_recv_sge = 1;
	pthread_mutex_init(&qp->sq_lock, NULL);
	pthread_mutex_init(&qp->rq_lock, NULL);
	if (open_sq(qp, qp->pd) || take_slot(qp)) {
		free_qp(qp);
		return NULL;
	}
	return qp;
}

static void give_slot(struct sr_qp *qp)
{
	sr_qp_table_lock();
	sr_qp_table[qp->slot] = NULL;
	sr_qp_table_unlock();
}

static void set_live(struct sr_qp *qp, bool live)
{
	sr_qp_table_lock();
	qp->is_live = live;
	sr_qp_table_unlock();
}

/* The queue pair begins, or ends, to use its objects. */
static void count_user(const struct sr_qp *qp, uint32_t n)
{
	if (qp->send_cq)
		atomic_fetch_add(&qp->send_cq->users, n);
	if (qp->recv_cq)
		atomic_fetch_add(&qp->recv_cq->users, n);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, n);
	if (qp->pd)
		atomic_fetch_add(&qp->pd->users, n);
	if (qp->xrcd)
		atomic_fetch_add(&qp->xrcd->users, n);
}

struct ibv_qp *sr_qp_create_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *a)
{
	int err = check_init(a);
	struct sr_qp *qp;

	if (err) {
		errno = err;
		return NULL;
	}
	qp = new_qp(a);
	if (!qp) {
		errno = ENOMEM;
		return NULL;
	}
	sr_rq_lock(sr_peer_self, qp->slot); /* a peer of the slot's last owner may still read it */
	open_shared(qp);
	err = open_rq(qp);
	sr_rq_unlock(sr_peer_self, qp->slot);
	if (err) {
		give_slot(qp);
		free_qp(qp);
		errno = ENOMEM;
		return NULL;
	}
	fill_ib(qp, c, a);
	count_user(qp, 1);
	sr_removal_hold(HOLD_QP);
	a->cap = qp->cap;
	set_live(qp, true);
	return &qp->ib.qp_base;
}

struct ibv_qp_init_attr_ex sr_qp_attr_ex(const struct ibv_qp_init_attr *init, struct ibv_pd *pd)
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
	struct ibv_qp_init_attr_ex a = sr_qp_attr_ex(init, pd);
	struct ibv_qp *qp = sr_qp_create_ex(pd->context, &a);

	if (qp)
		init->cap = a.cap;
	return qp;
}

SR_API struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *ib)
{
	return &sr_to_qp(ib)->ib;
}

SR_API int ibv_destroy_qp(struct ibv_qp *ib)
{
	struct sr_qp *qp = sr_qp_behind(ib);
	struct sr_qp used;

	if (sr_qp_is_xrc_recv(qp)) {
		if (!sr_xrc_drop_handle(ib))
			return 0;
		ib = &qp->ib.qp_base;
	}
	set_live(qp, false); /* the helper skips it now; pollers may still meet it */
	if (sr_qp_is_datagram(qp))
		sr_multicast_forget(qp->slot);
	sr_timer_stop(&qp->timer);
	sr_timer_stop(&qp->late_timer);
	pthread_mutex_lock(&qp->sq_lock); /* lets a post in progress finish */
	sr_rq_lock(sr_peer_self, qp->slot);
	atomic_store(&qp->s->state, IBV_QPS_RESET);
	atomic_store(&qp->s->qpn, 0);
	sr_rq_unlock(sr_peer_self, qp->slot);
	pthread_mutex_unlock(&qp->sq_lock);
	sr_qp_drop_completions(qp);
	sr_async_forget_qp(ib, &qp->async_delivered);
	seg_free(qp->s->rq.ring, qp->rq_bytes);
	give_slot(qp);
	qp->engine->disconnect(qp);
	pthread_mutex_destroy(&ib->mutex);
	pthread_cond_destroy(&ib->cond);
	used = *qp;
	free_qp(qp);
	count_user(&used, UINT32_MAX); /* the domain's allocator was needed until now */
	sr_removal_unhold(HOLD_QP);
	return 0;
}

void sr_qp_drop_completions(struct sr_qp *qp)
{
	uint32_t claimed;

	if (sr_qp_is_xrc_recv(qp)) {
		sr_xrc_unclaim(qp);
		return;
	}
	sr_cq_drop_qp(qp->send_cq, qp->slot);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		sr_cq_drop_qp(qp->recv_cq, qp->slot);
	claimed = sr_rq_unclaim(qp->slot);
	if (qp->srq && claimed != UINT32_MAX)
		sr_srq_give(qp->srq, claimed);
}
