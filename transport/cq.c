/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues; see cq.h.
 *
 * In a turn, poll takes a batch of completions. Each goes to its queue pair (qp_complete) or to
 * its receive ring (recv_complete). Then each queue pair with returned slots notifies its owner
 * once. At the end of the turn, flush posts what the turn has queued: receives first, so that a
 * peer that has the response finds the receive for its next command.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <infiniband/verbs.h>

#include "base/bits.h"
#include "base/check.h"
#include "transport/chain.h"
#include "transport/cq.h"
#include "transport/cq_internal.h"

enum {
	/* Completions of a poll. Requests that a queue pair sends together shall stay together.
	 * From 32 to 128, with longer chains, 64 queues at depth 32 went from 408 to 514 k/s; 256
	 * is no better. */
	BATCH = 128,
	AHEAD = 6, /* prefetch distance: 256 queues at depth 32 had 548 k/s with it, 500 without */
	ACK_BATCH = 256, /* events: an acknowledgement takes a mutex */
	SLOTS_MIN = 64,
};

bool completion_is_flush(const struct completion *c)
{
	return c->status == IBV_WC_WR_FLUSH_ERR;
}

const char *completion_string(const struct completion *c)
{
	return ibv_wc_status_str((enum ibv_wc_status)c->status);
}

/* ---- queue pairs by number ---- */

static unsigned slot_of(const struct cq *cq, uint32_t number)
{
	return number * 2654435761u & (cq->n_slots - 1);
}

struct qp *cq_find(const struct cq *cq, uint32_t number)
{
	unsigned i;

	for (i = slot_of(cq, number); cq->by_qpn[i]; i = (i + 1) & (cq->n_slots - 1))
		if (cq->by_qpn[i]->number == number)
			return cq->by_qpn[i];
	return NULL;
}

static void insert(struct cq *cq, struct qp *qp)
{
	unsigned i = slot_of(cq, qp->number);

	while (cq->by_qpn[i])
		i = (i + 1) & (cq->n_slots - 1);
	cq->by_qpn[i] = qp;
}

static int rehash(struct cq *cq, unsigned n_slots)
{
	struct qp **old = cq->by_qpn;
	unsigned n_old = cq->n_slots;
	struct qp **new = calloc(n_slots, sizeof(struct qp *));

	if (!new)
		return -ENOMEM;
	cq->by_qpn = new;
	cq->n_slots = n_slots;
	for (unsigned i = 0; i < n_old; i++)
		if (old[i])
			insert(cq, old[i]);
	free(old);
	return 0;
}

int cq_attach(struct cq *cq, struct qp *qp)
{
	if (2 * (cq->n_attached + 1) > cq->n_slots) {
		int r = rehash(cq, MAX(SLOTS_MIN, 2 * cq->n_slots));

		if (r < 0)
			return r;
	}
	insert(cq, qp);
	cq->n_attached++;
	return 0;
}

/* Open addressing without tombstones: inserts the rest of the cluster again. */
void cq_detach(struct cq *cq, struct qp *qp)
{
	unsigned i = slot_of(cq, qp->number);

	while (cq->by_qpn[i] != qp) {
		check(cq->by_qpn[i]);
		i = (i + 1) & (cq->n_slots - 1);
	}
	cq->by_qpn[i] = NULL;
	cq->n_attached--;
	for (i = (i + 1) & (cq->n_slots - 1); cq->by_qpn[i]; i = (i + 1) & (cq->n_slots - 1)) {
		struct qp *moved = cq->by_qpn[i];

		cq->by_qpn[i] = NULL;
		insert(cq, moved);
	}
}

/* ---- the polled source ---- */

/* rxe returns the kernel's value of the flag, which is IBV_WC_IP_CSUM_OK in libibverbs. A reliable
 * connection never has that flag otherwise. */
static bool has_invalidated(const struct ibv_wc *wc)
{
	return wc->wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK);
}

static void dispatch(struct cq *cq, const struct ibv_wc *wc)
{
	struct work *work = (struct work *)(uintptr_t)wc->wr_id;
	struct completion c UNINITIALIZED;

	if (work->qp) {
		qp_complete(work->qp, work, wc->status);
		return;
	}
	c = (struct completion){.status = wc->status};
	if (wc->status == IBV_WC_SUCCESS) {
		c.byte_len = wc->byte_len;
		c.has_invalidated = has_invalidated(wc);
		c.invalidated_rkey = c.has_invalidated ? wc->invalidated_rkey : 0;
	}
	recv_complete(work, cq->by_qpn ? cq_find(cq, wc->qp_num) : NULL, &c);
}

/* Counts as an item, so that the loop polls again and does not sleep. */
static unsigned complain(struct cq *cq, int error)
{
	if (log_limit_pass(&cq->poll_errors, 1))
		log_err("%s: cannot poll a completion queue (error %d); trying again",
			cq->device->name, -error);
	return 1;
}

static unsigned poll(struct loop_source *source)
{
	struct cq *cq = container_of(source, struct cq, source);
	struct ibv_wc wcs[BATCH] UNINITIALIZED;
	struct list *node;
	int n = ibv_poll_cq(cq->verbs, BATCH, wcs);

	if (n < 0) /* the completions stay in the queue */
		return complain(cq, n);
	for (int i = 0; i < n; i++) {
		if (i + AHEAD < n)
			__builtin_prefetch((void *)(uintptr_t)wcs[i + AHEAD].wr_id, 1);
		dispatch(cq, &wcs[i]);
	}
	while ((node = list_take_first(&cq->credited)))
		qp_credit(list_entry(node, struct qp, credited));
	if (cq->is_unarmed) { /* an item, so that the loop arms again and does not sleep */
		cq->is_unarmed = false;
		return (unsigned)n + 1;
	}
	return (unsigned)n;
}

void cq_poll_all(struct cq *cq)
{
	/* At most the entries that are there now: later ones are not needed. */
	for (unsigned n = 0; n <= cq->depth; n += BATCH)
		poll(&cq->source);
}

static void arm(struct loop_source *source)
{
	struct cq *cq = container_of(source, struct cq, source);
	cq->is_unarmed = ibv_req_notify_cq(cq->verbs, 0);
}

static __attribute__((noinline)) void flush_chains(struct cq *cq)
{
	struct list *node;

	while ((node = list_take_first(&cq->dirty_rings)))
		recv_flush(list_entry(node, struct recv_ring, dirty));
	while ((node = list_take_first(&cq->dirty)))
		qp_flush(list_entry(node, struct qp, dirty));
}

/* Most turns have nothing to post, so flush_chains is not inlined. */
static void flush(struct loop_source *source)
{
	struct cq *cq = container_of(source, struct cq, source);

	if (!list_is_empty(&cq->dirty_rings) || !list_is_empty(&cq->dirty))
		flush_chains(cq);
}

static void on_channel_event(struct loop_fd *lfd, uint32_t events)
{
	struct cq *cq = container_of(lfd, struct cq, lfd);
	struct ibv_cq *verbs;
	void *context;

	/* Only clears the channel: poll takes the completions, in this turn or the next. */
	while (!ibv_get_cq_event(cq->channel, &verbs, &context))
		if (++cq->n_unacked_events == ACK_BATCH) {
			ibv_ack_cq_events(cq->verbs, ACK_BATCH);
			cq->n_unacked_events = 0;
		}
}

/* Whether the queue can grow. No iWARP device resizes; a driver without resizing fails this first
 * call, while the queue is empty. */
static bool can_grow(const struct cq *cq)
{
	return !cq->device->limits.is_iwarp && !ibv_resize_cq(cq->verbs, (int)cq->depth);
}

/* Reads the real depth: devices round up, most of them to a power of 2. */
static void note_depth(struct cq *cq)
{
	cq->depth = (unsigned)cq->verbs->cqe;
}

static void make_verbs(struct cq *cq, unsigned depth)
{
	bool is_final = depth == cq->max_depth;

	cq->verbs = ibv_create_cq(cq->device->verbs, (int)depth, NULL, cq->channel, 0);
	if (!cq->verbs)
		return;
	note_depth(cq);
	if (is_final || can_grow(cq))
		return;
	ibv_destroy_cq(cq->verbs);
	errno = 0;
	make_verbs(cq, cq->max_depth);
}

int cq_init(struct cq *cq, struct device *device, struct loop *loop, unsigned depth,
	    unsigned max_depth)
{
	*cq = (struct cq){.device = device,
			  .loop = loop,
			  .max_depth = MIN(max_depth, device->limits.max_cqe),
			  .source = {.poll = poll, .arm = arm, .flush = flush}};
	list_init(&cq->dirty);
	list_init(&cq->dirty_rings);
	list_init(&cq->credited);
	errno = 0;
	cq->channel = ibv_create_comp_channel(device->verbs);
	if (cq->channel && !chains_init(&cq->chains))
		make_verbs(cq, MIN(depth, cq->max_depth));
	if (!cq->verbs || fcntl(cq->channel->fd, F_SETFL, O_NONBLOCK) < 0) {
		int r = errno ? -errno : -ENOMEM;

		cq_deinit(cq);
		return r;
	}
	cq->lfd = (struct loop_fd){.fd = cq->channel->fd,
				   .events = EPOLLIN,
				   .is_doorbell = true,
				   .on_event = on_channel_event};
	return 0;
}

int cq_start(struct cq *cq)
{
	int r = loop_fd_add(cq->loop, &cq->lfd);

	if (r < 0)
		return r;
	loop_source_add(cq->loop, &cq->source);
	return 0;
}

void cq_stop(struct cq *cq)
{
	check(cq->n_attached == 0);
	loop_source_remove(&cq->source);
	loop_fd_remove(&cq->lfd);
}

void cq_deinit(struct cq *cq)
{
	if (cq->verbs) {
		ibv_ack_cq_events(cq->verbs, cq->n_unacked_events);
		if (ibv_destroy_cq(cq->verbs))
			log_warn("%s: a completion queue is still in use and stays",
				 cq->device->name);
	}
	if (cq->channel)
		ibv_destroy_comp_channel(cq->channel);
	chains_deinit(&cq->chains);
	free(cq->by_qpn);
	*cq = (struct cq){0};
}

/* Grows by at least half of the depth, so that the number of calls stays small. */
static int grow(struct cq *cq, unsigned n_needed)
{
	unsigned depth = MIN(MAX(n_needed, cq->depth + cq->depth / 2), cq->max_depth);
	int r;

	if (n_needed > cq->max_depth)
		return -ENOSPC;
	r = ibv_resize_cq(cq->verbs, (int)depth);
	if (r)
		return r < 0 ? r : -r;
	note_depth(cq);
	return 0;
}

int cq_reserve(struct cq *cq, unsigned n)
{
	int r = 0;

	if (n > cq->depth - cq->n_reserved)
		r = grow(cq, cq->n_reserved + n);
	if (r < 0)
		return r;
	cq->n_reserved += n;
	return 0;
}

void cq_release(struct cq *cq, unsigned n)
{
	check(n <= cq->n_reserved);
	cq->n_reserved -= n;
}
