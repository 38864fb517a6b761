/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues.
 *
 *   producers  whoever executes a work request, in any process: lock, fill the entry
 *              at the tail, publish the tail, unlock, raise an event if armed
 *   consumers  the owner's threads: poll lock, copy out, release queue slots, head
 *
 * Polling an empty queue is two loads. Payload of small SENDs sits in the entry and
 * is scattered when it is polled. What a slot of a send queue costs is given back
 * here too: as on hardware only polling a completion frees queue space.
 *
 * Arming (Dekker): the producer publishes the tail and then looks at `armed`, the
 * consumer arms and then polls again, both sequentially consistent. The event is a
 * token in the channel's eventfd plus one on the CQ's `pending`; a producer that
 * dies in between is made up for by cq_peer_died().
 */
#include "cq.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "chaos.h"
#include "lock.h"
#include "node.h"
#include "peer.h"
#include "qp.h"
#include "removal.h"
#include "srq.h"

/* Guards the table. Taken before any CQ's locks. */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cq *table[SEG_MAX_CQ]; /* complete ones only */
static bool used[SEG_MAX_CQ];

/* ---- producers ------------------------------------------------------------- */

struct seg_cqe *cq_push_begin(struct peer *owner, uint32_t slot)
{
	struct seg_cq *s = &owner->seg->cq[slot];
	uint64_t tail;

	lock_take(&s->lock);
	tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	if (chaos_on() && owner == peer_self && chaos_overruns())
		tail += s->mask + 1ULL;
	if (atomic_load(&s->live) &&
	    tail - atomic_load_explicit(&s->head, memory_order_acquire) <= s->mask)
		return seg_cqe(owner->seg, s, tail);
	lock_give(&s->lock);
	if (!atomic_exchange(&s->overrun, 1))
		peer_kick_cq(owner, slot);
	return NULL;
}

static bool wants_event(uint32_t armed, const struct seg_cqe *e)
{
	return armed == SEG_ARM_ANY ||
	       (armed == SEG_ARM_SOLICITED && (e->solicited || e->wc.status));
}

static void raise_event(struct peer *owner, struct seg_cq *s)
{
	if (!atomic_exchange(&s->armed, SEG_ARM_NONE))
		return;
	if (s->chan_fd < 0)
		return;
	chaos_point();
	atomic_fetch_add(&s->pending, 1);
	chaos_point();
	peer_ring_channel(owner, s);
}

void cq_push_end(struct peer *owner, uint32_t slot, const struct seg_cqe *e)
{
	struct seg_cq *s = &owner->seg->cq[slot];
	uint64_t tail = atomic_load_explicit(&s->tail, memory_order_relaxed);
	bool ring;

	chaos_point();
	atomic_store(&s->tail, tail + 1); /* seq_cst: before the look at armed */
	chaos_point();
	ring = wants_event(atomic_load(&s->armed), e);
	lock_give(&s->lock);
	if (__builtin_expect(ring, 0))
		raise_event(owner, s);
	if (chaos_on() && s->chan_fd >= 0 && chaos_spurious_event()) {
		atomic_fetch_add(&s->pending, 1);
		peer_ring_channel(owner, s);
	}
}

void cqe_error(struct seg_cqe *e, uint32_t qpn, uint64_t wr_id, enum ibv_wc_status status)
{
	/* ibv_poll_cq(3) leaves the other fields undefined: make sure nobody relies on them */
	memset(&e->wc, 0x5a, sizeof(e->wc));
	e->wc.wr_id = wr_id;
	e->wc.status = status;
	e->wc.vendor_err = (uint32_t)status;
	e->wc.qp_num = qpn;
	e->solicited = 1; /* errors always raise an armed event */
	e->inl_len = 0;
}

bool cq_holds_recv(struct seg *s, uint32_t cq_slot, uint32_t qp_slot, uint64_t seq)
{
	struct seg_cq *c = &s->cq[cq_slot];
	bool found = false;

	lock_take(&c->lock);
	for (uint64_t i = atomic_load(&c->head); i != atomic_load(&c->tail) && !found; i++) {
		const struct seg_cqe *e = seg_cqe(s, c, i);

		found = e->kind == SEG_CQE_RECV && e->qp_slot == qp_slot && e->seq == seq;
	}
	lock_give(&c->lock);
	return found;
}

/* ---- consumers ------------------------------------------------------------- */

/*
 * Chaos: the first completion of another queue pair moves to the front. There is no
 * order between queue pairs, and within one it stays.
 */
__attribute__((cold)) static void reorder(struct cq *cq)
{
	struct seg_cq *s = cq->s;
	uint64_t head, tail, other;

	lock_take(&s->lock); /* a repair may be looking for a completion */
	head = atomic_load(&s->head);
	tail = atomic_load(&s->tail);
	for (other = head; other != tail; other++)
		if (cq->ring[other & s->mask].qp_slot != cq->ring[head & s->mask].qp_slot)
			break;
	if (other != tail) {
		struct seg_cqe first = cq->ring[other & s->mask];

		for (; other != head; other--)
			cq->ring[other & s->mask] = cq->ring[(other - 1) & s->mask];
		cq->ring[head & s->mask] = first;
	}
	lock_give(&s->lock);
}

bool cq_pop(struct cq *cq, struct ibv_wc *wc)
{
	struct seg_cq *s = cq->s;
	uint64_t head = atomic_load_explicit(&s->head, memory_order_relaxed);
	bool found = false;

	if (chaos_on() && chaos_reorders())
		reorder(cq);
	while (!found && head != atomic_load_explicit(&s->tail, memory_order_acquire)) {
		const struct seg_cqe *e = &cq->ring[head & s->mask];

		found = e->kind != SEG_CQE_VOID;
		if (found) {
			*wc = e->wc;
			qp_on_polled(e);
		}
		atomic_store_explicit(&s->head, ++head, memory_order_release);
	}
	return found;
}

int cq_poll(struct ibv_cq *ib, int n, struct ibv_wc *wc)
{
	struct cq *cq = to_cq(ib);
	int got = 0;

	if (atomic_load_explicit(&cq->s->tail, memory_order_acquire) ==
	    atomic_load_explicit(&cq->s->head, memory_order_relaxed))
		return 0;
	if (chaos_on())
		n = chaos_poll_limit(n);
	pthread_mutex_lock(&cq->poll);
	while (got < n && cq_pop(cq, &wc[got]))
		got++;
	pthread_mutex_unlock(&cq->poll);
	return got;
}

void cq_drop_qp(struct cq *cq, uint32_t qp_slot)
{
	struct seg_cq *s = cq->s;
	uint64_t tail;

	pthread_mutex_lock(&cq->poll);
	lock_take(&s->lock);
	tail = atomic_load(&s->tail);
	for (uint64_t i = atomic_load(&s->head); i != tail; i++) {
		struct seg_cqe *e = &cq->ring[i & s->mask];

		if (e->qp_slot != qp_slot || e->kind == SEG_CQE_VOID)
			continue;
		if (e->kind == SEG_CQE_RECV)
			qp_on_dropped(e);
		e->kind = SEG_CQE_VOID;
	}
	lock_give(&s->lock);
	pthread_mutex_unlock(&cq->poll);
}

void cq_quiesce_all(void)
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

int cq_req_notify(struct ibv_cq *ib, int solicited_only)
{
	struct seg_cq *s = to_cq(ib)->s;
	uint32_t none = SEG_ARM_NONE;

	if (solicited_only) /* arming twice keeps the wider request */
		atomic_compare_exchange_strong(&s->armed, &none, SEG_ARM_SOLICITED);
	else
		atomic_store(&s->armed, SEG_ARM_ANY);
	return 0;
}

/* ---- life ------------------------------------------------------------------ */

static uint32_t round_pow2(uint32_t n)
{
	uint32_t size = 64; /* small queues are rounded up, as drivers do */

	while (size < n)
		size *= 2;
	return size;
}

static int take_slot(struct cq *cq)
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

static void give_slot(struct cq *cq)
{
	pthread_mutex_lock(&table_lock);
	used[cq->slot] = false;
	pthread_mutex_unlock(&table_lock);
}

static void list(uint32_t slot, struct cq *cq)
{
	pthread_mutex_lock(&table_lock);
	table[slot] = cq;
	pthread_mutex_unlock(&table_lock);
}

static int open_ring(struct cq *cq, uint32_t cqe)
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
	lock_take(&s->lock);
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
	lock_give(&s->lock);
	return 0;
}

static void join_chan(struct cq *cq)
{
	struct chan *ch = cq->chan;

	if (!ch)
		return;
	pthread_mutex_lock(&ch->lock);
	cq->next_in_chan = ch->cqs;
	ch->cqs = cq;
	ch->ib.refcnt++;
	pthread_mutex_unlock(&ch->lock);
}

static struct cq *create(struct ibv_context *c, int64_t cqe, void *context,
			 struct ibv_comp_channel *channel, int64_t vector)
{
	struct cq *cq;

	if (cqe < 1 || cqe > DEV_MAX_CQE || vector < 0 || vector >= DEV_N_VECTORS) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		errno = ENOMEM;
		return NULL;
	}
	cq->chan = channel ? container_of(channel, struct chan, ib) : NULL;
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
	cq_ex_init(cq);
	join_chan(cq);
	list(cq->slot, cq);
	removal_hold(HOLD_CQ);
	return cq;
}

SR_API struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context,
				    struct ibv_comp_channel *channel, int vector)
{
	struct cq *cq = create(c, cqe, context, channel, vector);

	return cq ? ibv_cq_ex_to_cq(&cq->ib) : NULL;
}

struct ibv_cq_ex *cq_create_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a)
{
	struct cq *cq;
	uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	if (a->wc_flags & ~known || a->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	cq = create(c, a->cqe, a->cq_context, a->channel, a->comp_vector);
	return cq ? &cq->ib : NULL;
}

SR_API int ibv_resize_cq(struct ibv_cq *ib, int cqe)
{
	struct cq *cq = to_cq(ib);
	struct seg_cq *s = cq->s;
	uint32_t size;
	uint64_t ring, old;

	if (dev_is_siw())
		return EOPNOTSUPP; /* libsiw has no such call */
	if (cqe < 1 || cqe > DEV_MAX_CQE)
		return EINVAL;
	size = round_pow2((uint32_t)cqe);
	ring = seg_alloc(size * sizeof(struct seg_cqe));
	if (!ring)
		return ENOMEM;
	pthread_mutex_lock(&cq->poll);
	lock_take(&s->lock);
	if (atomic_load(&s->tail) - atomic_load(&s->head) > size) {
		lock_give(&s->lock);
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
	lock_give(&s->lock);
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

static void leave_chan(struct cq *cq)
{
	struct chan *ch = cq->chan;
	struct cq **p;
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
	struct cq *cq = to_cq(ib);

	if (atomic_load(&cq->users))
		return EBUSY;
	list(cq->slot, NULL);
	lock_take(&cq->s->lock);
	atomic_store(&cq->s->live, 0);
	atomic_store(&cq->s->armed, SEG_ARM_NONE);
	lock_give(&cq->s->lock);
	leave_chan(cq);
	async_forget_cq(ib, &cq->async_delivered);
	seg_free(cq->s->ring, cq->size * sizeof(struct seg_cqe));
	give_slot(cq);
	pthread_mutex_destroy(&cq->poll);
	pthread_mutex_destroy(&cq->ib.mutex);
	pthread_cond_destroy(&cq->ib.cond);
	free(cq);
	removal_unhold(HOLD_CQ);
	return 0;
}

/* ---- completion events ----------------------------------------------------- */

SR_API struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	static _Atomic uint64_t last_serial;
	struct chan *ch = calloc(1, sizeof(*ch));

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
	removal_hold(HOLD_CHANNEL);
	return &ch->ib;
}

SR_API int ibv_destroy_comp_channel(struct ibv_comp_channel *ib)
{
	struct chan *ch = container_of(ib, struct chan, ib);
	bool busy;

	pthread_mutex_lock(&ch->lock);
	busy = ib->refcnt;
	pthread_mutex_unlock(&ch->lock);
	if (busy)
		return EBUSY;
	close(ib->fd);
	pthread_mutex_destroy(&ch->lock);
	free(ch);
	removal_unhold(HOLD_CHANNEL);
	return 0;
}

/* The next CQ with an event, which moves to the end: each gets its turn. */
static struct cq *take_event(struct chan *ch)
{
	struct cq **p, **last, *cq;

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
	struct chan *ch = container_of(ib, struct chan, ib);
	struct cq *cq;
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

void cq_attention(uint32_t slot)
{
	struct cq *cq;

	pthread_mutex_lock(&table_lock);
	cq = table[slot];
	if (cq && atomic_load(&cq->s->overrun))
		async_raise(cq->ib.context, IBV_EVENT_CQ_ERR, cq);
	pthread_mutex_unlock(&table_lock);
	qp_cq_overrun(slot);
}

void cq_peer_died(void)
{
	pthread_mutex_lock(&table_lock);
	for (unsigned i = 0; i < SEG_MAX_CQ; i++) {
		struct cq *cq = table[i];

		if (!cq)
			continue;
		lock_take(&cq->s->lock);
		lock_give(&cq->s->lock);
		if (atomic_load(&cq->s->tail) == atomic_load(&cq->s->head) || !cq->chan)
			continue;
		/* it may have died before it rang: a spurious event does no harm */
		atomic_store(&cq->s->armed, SEG_ARM_NONE);
		atomic_fetch_add(&cq->s->pending, 1);
		peer_ring_channel(peer_self, cq->s);
	}
	pthread_mutex_unlock(&table_lock);
}
