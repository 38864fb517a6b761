/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues: the owner's side; srq_create.c makes and destroys them. rq.c has the side
 * of the senders, which take receives.
 *
 * Receives are posted into any free slot; the order ring has the order of their use. A slot becomes
 * free again when the application polls its completion, which for an SRQ may be in any order.
 */
#include "softrdma/verbs/srq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/node.h"
#include "softrdma/process/api.h"
#include "softrdma/process/helper.h"
#include "softrdma/process/timer.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/verbs/qp_table.h"

/* Guards the table. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_srq *table[SEG_MAX_SRQ]; /* complete objects only */
static bool used[SEG_MAX_SRQ];

int sr_srq_take_slot(struct sr_srq *srq)
{
	int r = -ENOMEM;

	pthread_mutex_lock(&table_lock);
	for (uint32_t i = 0; i < SEG_MAX_SRQ && r; i++) {
		if (used[i])
			continue;
		used[i] = true;
		srq->slot = i;
		r = 0;
	}
	pthread_mutex_unlock(&table_lock);
	return r;
}

void sr_srq_list(uint32_t slot, struct sr_srq *srq, bool in_use)
{
	pthread_mutex_lock(&table_lock);
	table[slot] = srq;
	used[slot] = in_use;
	pthread_mutex_unlock(&table_lock);
}

struct sr_srq *sr_srq_at(uint32_t slot)
{
	return table[slot];
}

SR_API int ibv_modify_srq(struct ibv_srq *ib, struct ibv_srq_attr *attr, int mask)
{
	struct sr_srq *srq = sr_to_srq(ib);

	if (mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR))
		return EINVAL;
	if (mask & IBV_SRQ_MAX_WR) /* IBV_DEVICE_SRQ_RESIZE is not advertised */
		return EOPNOTSUPP;
	if (mask & IBV_SRQ_LIMIT) {
		if (attr->srq_limit > srq->max_wr)
			return EINVAL;
		atomic_store(&srq->s->limit, attr->srq_limit);
	}
	return 0;
}

int sr_srq_number(struct ibv_srq *ib, uint32_t *ret)
{
	if (!sr_to_srq(ib)->cq)
		return EINVAL;
	*ret = sr_to_srq(ib)->s->number;
	return 0;
}

SR_API int ibv_query_srq(struct ibv_srq *ib, struct ibv_srq_attr *attr)
{
	struct sr_srq *srq = sr_to_srq(ib);

	attr->max_wr = srq->max_wr;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = atomic_load(&srq->s->limit);
	return 0;
}

/* ---- posting --------------------------------------------------------------- */

static void post_one(struct sr_srq *srq, const struct ibv_recv_wr *wr)
{
	struct seg_srq *s = srq->s;
	uint64_t pos = atomic_load_explicit(&s->posted, memory_order_relaxed);
	uint32_t slot = srq->free[--srq->n_free];
	struct seg_rqe *e = seg_rqe(seg_self, s->ring, s->stride, slot);
	uint32_t *order = seg_at(seg_self, s->order);

	e->wr_id = wr->wr_id;
	atomic_store_explicit(&e->seq, pos, memory_order_relaxed);
	e->n_sge = (uint32_t)wr->num_sge;
	e->slot = slot;
	sr_copy_sge_list(e->sge, wr->sg_list, e->n_sge);
	order[pos & s->mask] = slot;
	atomic_store(&s->posted, pos + 1); /* seq_cst: before the look at waiters */
}

int sr_srq_post_recv(struct ibv_srq *ib, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct sr_srq *srq = sr_to_srq(ib);
	int r = 0;

	pthread_mutex_lock(&srq->lock);
	for (; wr && !r; wr = r ? wr : wr->next) {
		if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge)
			r = EINVAL;
		else if (!srq->n_free)
			r = ENOMEM;
		else
			post_one(srq, wr);
	}
	pthread_mutex_unlock(&srq->lock);
	if (r)
		*bad = wr;
	if (UNLIKELY(atomic_load(&srq->s->waiters)) && atomic_exchange(&srq->s->waiters, 0))
		sr_qp_kick_srq_waiters(srq->slot);
	return r;
}

void sr_srq_give(struct sr_srq *srq, uint32_t rqe_slot)
{
	struct seg_rqe *e = seg_rqe(seg_self, srq->s->ring, srq->s->stride, rqe_slot);

	pthread_mutex_lock(&srq->lock);
	atomic_store_explicit(&e->seq, UINT64_MAX, memory_order_relaxed);
	srq->free[srq->n_free++] = rqe_slot;
	pthread_mutex_unlock(&srq->lock);
}

/* ---- helper ---------------------------------------------------------------- */

void sr_srq_attention(uint32_t slot)
{
	struct sr_srq *srq;

	pthread_mutex_lock(&table_lock);
	srq = table[slot];
	if (srq && atomic_exchange(&srq->s->fired, 0))
		sr_async_raise(srq->ib.context, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	pthread_mutex_unlock(&table_lock);
}

void sr_srq_peer_died(void)
{
	pthread_mutex_lock(&table_lock);
	for (uint32_t i = 0; i < SEG_MAX_SRQ; i++)
		if (table[i] && atomic_load(&table[i]->s->fired))
			sr_peer_kick_srq(sr_peer_self, i); /* it may have died before it kicked */
	pthread_mutex_unlock(&table_lock);
}
