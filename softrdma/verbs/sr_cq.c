/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues and channels: creation, destruction, arming and events. Producing entries is in
 * fabric/completion.c, consuming them in cq_poll.c.
 *
 *   producers  the thread that executes a work request, in any process: lock, fill the entry
 *              at the tail, publish the tail, unlock, raise an event if armed
 *   consumers  the owner's threads: poll lock, copy out, release queue slots, head
 *
 * Arming (Dekker): the producer publishes the tail and then looks at `armed`, the consumer arms and
 * then polls again, both sequentially consistent. The event is a token in the channel's eventfd
 * plus one on the CQ's `pending`. If a producer dies in between, sr_cq_peer_died() raises the
 * event.
 */
#include "softrdma/verbs/sr_cq.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/node.h"
#include "softrdma/process/helper.h"
#include "softrdma/process/timer.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/cq_ex.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/process/likeness.h"

/* Guards the table. Taken before any CQ's locks. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_cq *table[SEG_MAX_CQ]; /* complete objects only */
static bool used[SEG_MAX_CQ];

/* ---- consumers ------------------------------------------------------------- */

void sr_cq_quiesce_all(void)
{
	pthread_mutex_lock(&table_lock);
	for (unsigned i = 0; i < SEG_MAX_CQ; i++) {
		if (!table[i])
			continue;
		pthread_mutex_lock(&table[i]->poll);
		pthread_mutex_unlock(&table[i]->poll);
	}
	pthread_mutex_unlock(&table_lock);
}

int sr_cq_req_notify(struct ibv_cq *ib, int solicited_only)
{
	struct seg_cq *s = sr_to_cq(ib)->s;
	uint32_t none = SEG_ARM_NONE;

	if (solicited_only) /* arming twice keeps the wider request */
		atomic_compare_exchange_strong(&s->armed, &none, SEG_ARM_SOLICITED);
	else
		atomic_store(&s->armed, SEG_ARM_ANY);
	sr_engine_sleep();
	return 0;
}

/* ---- life ------------------------------------------------------------------ */

static uint32_t round_pow2(uint32_t n)
{
	uint32_t size = 4; /* small queues are rounded up, as drivers do */

	while (size < n)
		size *= 2;
	return size;
}

static int take_slot(struct sr_cq *cq)
{
	int r = -ENOMEM;

	pthread_mutex_lock(&table_lock);
	for (uint32_t i = 0; i < SEG_MAX_CQ && r; i++) {
		if (used[i])
			continue;
		used[i] = true;
		cq->slot = i;
		r = 0;
	}
	pthread_mutex_unlock(&table_lock);
	return r;
}

static void give_slot(struct sr_cq *cq)
{
	pthread_mutex_lock(&table_lock);
	used[cq->slot] = false;
	pthread_mutex_unlock(&table_lock);
}

static void list(uint32_t slot, struct sr_cq *cq)
{
	pthread_mutex_lock(&table_lock);
	table[slot] = cq;
	pthread_mutex_unlock(&table_lock);
}

static int open_ring(struct sr_cq *cq, uint32_t cqe)
{
	struct seg_cq *s;
	uint64_t ring;

	cq->size = round_pow2(cqe);
	ring = seg_alloc(cq->size * sizeof(struct seg_cqe));
	if (!ring)
		return -ENOMEM;
	if (take_slot(cq)) {
		seg_free(ring, cq->size * sizeof(struct seg_cqe));
		return -ENOMEM;
	}
	s = cq->s = &seg_self->cq[cq->slot];
	cq->ring = seg_at(seg_self, ring);
	sr_lock_take(&s->lock);
	s->ring = ring;
	s->mask = cq->size - 1;
	atomic_store(&s->armed, SEG_ARM_NONE);
	atomic_store(&s->pending, 0);
	atomic_store(&s->overrun, 0);
	atomic_store(&s->tail, 0);
	atomic_store(&s->head, 0);
	s->chan_fd = cq->chan ? cq->chan->ib.fd : -1;
	s->chan_serial = cq->chan ? cq->chan->serial : 0;
	atomic_store(&s->live, 1);
	sr_lock_give(&s->lock);
	return 0;
}

static void join_chan(struct sr_cq *cq)
{
	struct sr_chan *ch = cq->chan;

	if (!ch)
		return;
	pthread_mutex_lock(&ch->lock);
	cq->next_in_chan = ch->cqs;
	ch->cqs = cq;
	ch->ib.refcnt++;
	pthread_mutex_unlock(&ch->lock);
}

static struct sr_cq *create(struct ibv_context *c, int64_t cqe, void *context,
			    struct ibv_comp_channel *channel, int64_t vector)
{
	struct sr_cq *cq;

	if (cqe < 1 || cqe > DEV_MAX_CQE || vector < 0 || vector >= DEV_N_VECTORS) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		errno = ENOMEM;
		return NULL;
	}
	cq->chan = channel ? container_of(channel, struct sr_chan, ib) : NULL;
	if (open_ring(cq, (uint32_t)cqe)) {
		free(cq);
		errno = ENOMEM;
		return NULL;
	}
	cq->ib.context = c;
	cq->ib.channel = channel;
	cq->ib.cq_context = context;
	cq->ib.handle = cq->slot;
	cq->ib.cqe = (int)cq->size;
	pthread_mutex_init(&cq->ib.mutex, NULL);
	pthread_cond_init(&cq->ib.cond, NULL);
	pthread_mutex_init(&cq->poll, NULL);
	sr_cq_ex_init(cq);
	join_chan(cq);
	list(cq->slot, cq);
	sr_removal_hold(HOLD_CQ);
	return cq;
}

SR_API struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context,
				    struct ibv_comp_channel *channel, int vector)
{
	struct sr_cq *cq = create(c, cqe, context, channel, vector);

	return cq ? ibv_cq_ex_to_cq(&cq->ib) : NULL;
}

struct ibv_cq_ex *sr_cq_create_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a)
{
	struct sr_cq *cq;
	uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	struct sr_pd *domain = NULL;

	if (a->wc_flags & ~known ||
	    a->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		domain = a->parent_domain ? sr_to_pd(a->parent_domain) : NULL;
		if (!domain || !domain->below) {
			errno = EINVAL;
			return NULL;
		}
	}
	cq = create(c, a->cqe, a->cq_context, a->channel, a->comp_vector);
	if (!cq)
		return NULL;
	cq->domain = domain;
	if (domain)
		atomic_fetch_add(&domain->users, 1);
	return &cq->ib;
}

SR_API int ibv_resize_cq(struct ibv_cq *ib, int cqe)
{
	struct sr_cq *cq = sr_to_cq(ib);
	struct seg_cq *s = cq->s;
	uint32_t size;
	uint64_t ring, old;

	if (sr_is_siw())
		return EOPNOTSUPP; /* libsiw has no such call */
	if (cqe < 1 || cqe > DEV_MAX_CQE)
		return EINVAL;
	size = round_pow2((uint32_t)cqe);
	ring = seg_alloc(size * sizeof(struct seg_cqe));
	if (!ring)
		return ENOMEM;
	pthread_mutex_lock(&cq->poll);
	sr_lock_take(&s->lock);
	if (atomic_load(&s->tail) - atomic_load(&s->head) > size) {
		sr_lock_give(&s->lock);
		pthread_mutex_unlock(&cq->poll);
		seg_free(ring, size * sizeof(struct seg_cqe));
		return EINVAL; /* more entries are waiting than would fit */
	}
	old = s->ring;
	for (uint64_t i = atomic_load(&s->head); i != atomic_load(&s->tail); i++)
		((struct seg_cqe *)seg_at(seg_self, ring))[i & (size - 1)] = cq->ring[i & s->mask];
	s->ring = ring;
	s->mask = size - 1;
	cq->ring = seg_at(seg_self, ring);
	seg_free(old, cq->size * sizeof(struct seg_cqe));
	cq->size = size;
	ib->cqe = (int)size;
	sr_lock_give(&s->lock);
	pthread_mutex_unlock(&cq->poll);
	return 0;
}

static void drop_tokens(int fd, uint32_t n)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t token;

	while (n-- && poll(&p, 1, 0) == 1)
		(void)!read(fd, &token, sizeof(token));
}

static void leave_chan(struct sr_cq *cq)
{
	struct sr_chan *ch = cq->chan;
	struct sr_cq **p;
	unsigned delivered;

	if (!ch)
		return;
	pthread_mutex_lock(&ch->lock);
	for (p = &ch->cqs; *p && *p != cq; p = &(*p)->next_in_chan)
		;
	if (*p)
		*p = cq->next_in_chan;
	ch->ib.refcnt--;
	drop_tokens(ch->ib.fd, atomic_exchange(&cq->s->pending, 0));
	delivered = cq->delivered;
	pthread_mutex_unlock(&ch->lock);
	pthread_mutex_lock(&cq->ib.mutex);
	while (cq->ib.comp_events_completed != delivered)
		pthread_cond_wait(&cq->ib.cond, &cq->ib.mutex);
	pthread_mutex_unlock(&cq->ib.mutex);
}

SR_API int ibv_destroy_cq(struct ibv_cq *ib)
{
	struct sr_cq *cq = sr_to_cq(ib);

	if (atomic_load(&cq->users))
		return EBUSY;
	list(cq->slot, NULL);
	sr_lock_take(&cq->s->lock);
	atomic_store(&cq->s->live, 0);
	atomic_store(&cq->s->armed, SEG_ARM_NONE);
	sr_lock_give(&cq->s->lock);
	leave_chan(cq);
	sr_async_forget_cq(ib, &cq->async_delivered);
	seg_free(cq->s->ring, cq->size * sizeof(struct seg_cqe));
	give_slot(cq);
	if (cq->domain)
		atomic_fetch_sub(&cq->domain->users, 1);
	pthread_mutex_destroy(&cq->poll);
	pthread_mutex_destroy(&cq->ib.mutex);
	pthread_cond_destroy(&cq->ib.cond);
	free(cq);
	sr_removal_unhold(HOLD_CQ);
	return 0;
}

/* ---- completion events ----------------------------------------------------- */

SR_API struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	static _Atomic uint64_t last_serial;
	struct sr_chan *ch = calloc(1, sizeof(*ch));

	if (!ch)
		return NULL;
	ch->ib.context = c;
	ch->ib.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (ch->ib.fd < 0) {
		free(ch);
		return NULL;
	}
	ch->serial = atomic_fetch_add(&last_serial, 1) + 1;
	pthread_mutex_init(&ch->lock, NULL);
	sr_removal_hold(HOLD_CHANNEL);
	return &ch->ib;
}

SR_API int ibv_destroy_comp_channel(struct ibv_comp_channel *ib)
{
	struct sr_chan *ch = container_of(ib, struct sr_chan, ib);
	bool busy;

	pthread_mutex_lock(&ch->lock);
	busy = ib->refcnt;
	pthread_mutex_unlock(&ch->lock);
	if (busy)
		return EBUSY;
	close(ib->fd);
	pthread_mutex_destroy(&ch->lock);
	free(ch);
	sr_removal_unhold(HOLD_CHANNEL);
	return 0;
}

/* The next CQ with an event moves to the end, so that each gets its turn. */
static struct sr_cq *take_event(struct sr_chan *ch)
{
	struct sr_cq **p, **last, *cq;

	for (p = &ch->cqs; (cq = *p); p = &cq->next_in_chan)
		if (atomic_load(&cq->s->pending))
			break;
	if (!cq)
		return NULL;
	atomic_fetch_sub(&cq->s->pending, 1);
	cq->delivered++;
	*p = cq->next_in_chan;
	for (last = &ch->cqs; *last; last = &(*last)->next_in_chan)
		;
	*last = cq;
	cq->next_in_chan = NULL;
	return cq;
}

SR_API int ibv_get_cq_event(struct ibv_comp_channel *ib, struct ibv_cq **ret, void **context)
{
	struct sr_chan *ch = container_of(ib, struct sr_chan, ib);
	struct sr_cq *cq;
	uint64_t token;

	do {
		if (read(ib->fd, &token, sizeof(token)) != sizeof(token))
			return -1;
		pthread_mutex_lock(&ch->lock);
		cq = take_event(ch);
		pthread_mutex_unlock(&ch->lock);
	} while (!cq);
	*ret = ibv_cq_ex_to_cq(&cq->ib);
	*context = cq->ib.cq_context;
	return 0;
}

SR_API void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- helper ---------------------------------------------------------------- */

void sr_cq_attention(uint32_t slot)
{
	struct sr_cq *cq;

	pthread_mutex_lock(&table_lock);
	cq = table[slot];
	if (cq && atomic_load(&cq->s->overrun))
		sr_async_raise(cq->ib.context, IBV_EVENT_CQ_ERR, cq);
	pthread_mutex_unlock(&table_lock);
}

void sr_cq_peer_died(void)
{
	pthread_mutex_lock(&table_lock);
	for (unsigned i = 0; i < SEG_MAX_CQ; i++) {
		struct sr_cq *cq = table[i];

		if (!cq)
			continue;
		sr_lock_take(&cq->s->lock);
		sr_lock_give(&cq->s->lock);
		if (atomic_load(&cq->s->tail) == atomic_load(&cq->s->head) || !cq->chan)
			continue;
		/* It may have died before it rang the channel: a spurious event does no harm. */
		atomic_store(&cq->s->armed, SEG_ARM_NONE);
		atomic_fetch_add(&cq->s->pending, 1);
		sr_peer_ring_channel(sr_peer_self, cq->s);
	}
	pthread_mutex_unlock(&table_lock);
}
