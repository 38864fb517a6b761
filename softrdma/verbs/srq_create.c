/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/verbs/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "softrdma/fabric/node.h"
#include "softrdma/process/likeness.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/cq_poll.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/verbs/srq_create.h"
#include "softrdma/verbs/xrc.h"

/* A slot, and the numbers for it if the SRQ has one: they are like those of queue pairs, of which
 * each names its process. */
static int take_number(struct sr_srq *srq)
{
	if (sr_srq_take_slot(srq))
		return -ENOMEM;
	if (!srq->cq || !sr_node_reserve_qps(srq->slot + 1))
		return 0;
	sr_srq_list(srq->slot, NULL, false);
	return -ENOMEM;
}

static void open_xrc(const struct sr_srq *srq)
{
	struct seg_srq *s = srq->s;

	s->cq = srq->cq ? srq->cq->slot + 1 : 0;
	s->number = (uint32_t)seg_self->base[srq->slot / 256] << 8 | srq->slot % 256;
	s->domain = srq->xrcd ? srq->xrcd->name : (struct seg_domain){0};
}

static int open_srq(struct sr_srq *srq, uint32_t pd)
{
	uint32_t size = 1, stride;
	uint64_t ring, order;
	struct seg_srq *s;

	while (size < srq->max_wr)
		size *= 2;
	stride = (uint32_t)(sizeof(struct seg_rqe) + srq->max_sge * sizeof(struct ibv_sge));
	srq->ring_bytes = (size_t)size * stride;
	srq->order_bytes = size * sizeof(uint32_t);
	srq->free = calloc(srq->max_wr, sizeof(*srq->free));
	ring = seg_alloc(srq->ring_bytes);
	order = seg_alloc(srq->order_bytes);
	if (!srq->free || !ring || !order || take_number(srq)) {
		seg_free(ring, srq->ring_bytes);
		seg_free(order, srq->order_bytes);
		free(srq->free);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < srq->max_wr; i++)
		srq->free[srq->n_free++] = srq->max_wr - 1 - i;
	s = srq->s = &seg_self->srq[srq->slot];
	s->pd = pd;
	s->ring = ring;
	s->order = order;
	s->stride = stride;
	s->mask = size - 1;
	open_xrc(srq);
	atomic_store(&s->limit, 0);
	atomic_store(&s->fired, 0);
	atomic_store(&s->posted, 0);
	atomic_store(&s->head, 0);
	atomic_store(&s->live, 1);
	return 0;
}

/* The SRQ begins, or ends, to use its objects. */
static void count_user(const struct sr_srq *srq, uint32_t n)
{
	atomic_fetch_add(&sr_to_pd(srq->ib.pd)->users, n);
	if (srq->cq)
		atomic_fetch_add(&srq->cq->users, n);
	if (srq->xrcd)
		atomic_fetch_add(&srq->xrcd->users, n);
}

static struct ibv_srq *create(struct ibv_pd *pd, struct ibv_srq_init_attr *init, struct sr_cq *cq,
			      struct sr_xrcd *xrcd)
{
	struct sr_srq *srq;

	if (!init->attr.max_wr || init->attr.max_wr > DEV_MAX_WR ||
	    init->attr.max_sge > DEV_MAX_SRQ_SGE) {
		errno = EINVAL;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	srq->cq = cq;
	srq->xrcd = xrcd;
	srq->max_wr = init->attr.max_wr;
	srq->max_sge = init->attr.max_sge = init->attr.max_sge ? init->attr.max_sge : 1;
	pthread_mutex_init(&srq->lock, NULL);
	if (open_srq(srq, sr_to_pd(pd)->number)) {
		free(srq);
		errno = ENOMEM;
		return NULL;
	}
	srq->ib.context = pd->context;
	srq->ib.srq_context = init->srq_context;
	srq->ib.pd = pd;
	srq->ib.handle = srq->slot;
	pthread_mutex_init(&srq->ib.mutex, NULL);
	pthread_cond_init(&srq->ib.cond, NULL);
	count_user(srq, 1);
	sr_srq_list(srq->slot, srq, true);
	sr_removal_hold(HOLD_SRQ);
	return &srq->ib;
}

SR_API struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	return create(pd, init, NULL, NULL);
}

static bool is_xrc(const struct ibv_srq_init_attr_ex *a)
{
	return a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type == IBV_SRQT_XRC;
}

static int check_ex(const struct ibv_srq_init_attr_ex *a)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if (a->comp_mask & ~(xrc | IBV_SRQ_INIT_ATTR_TYPE) ||
	    !(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || (is_xrc(a) && sr_is_siw()))
		return EOPNOTSUPP;
	if (a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && a->srq_type != IBV_SRQT_BASIC && !is_xrc(a))
		return EOPNOTSUPP;
	if (is_xrc(a) && ((a->comp_mask & xrc) != xrc || !a->cq || !a->xrcd))
		return EINVAL;
	return a->pd ? 0 : EINVAL;
}

struct ibv_srq *sr_srq_create_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *a)
{
	struct ibv_srq_init_attr init = {.srq_context = a->srq_context, .attr = a->attr};
	struct ibv_srq *srq;

	errno = check_ex(a);
	if (errno)
		return NULL;
	srq = is_xrc(a) ? create(a->pd, &init, sr_to_cq(a->cq), sr_to_xrcd(a->xrcd))
			: create(a->pd, &init, NULL, NULL);
	if (srq)
		a->attr = init.attr;
	return srq;
}

SR_API int ibv_destroy_srq(struct ibv_srq *ib)
{
	struct sr_srq *srq = sr_to_srq(ib);

	if (atomic_load(&srq->users))
		return EBUSY;
	atomic_store(&srq->s->live, 0);
	if (srq->cq) { /* queue pairs that are not its users may know it, and completions */
		sr_xrc_forget_srq(srq->slot);
		sr_cq_drop_srq(srq->cq, srq->slot);
	}
	sr_srq_list(srq->slot, NULL, true);
	sr_async_forget_srq(ib, &srq->async_delivered);
	count_user(srq, UINT32_MAX);
	pthread_mutex_destroy(&srq->lock);
	pthread_mutex_destroy(&ib->mutex);
	pthread_cond_destroy(&ib->cond);
	seg_free(srq->s->ring, srq->ring_bytes);
	seg_free(srq->s->order, srq->order_bytes);
	sr_srq_list(srq->slot, NULL, false);
	free(srq->free);
	free(srq);
	sr_removal_unhold(HOLD_SRQ);
	return 0;
}
