/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In a turn, poll takes a batch of completions. Each goes to its queue pair (qp_complete) or to
 * its receive ring (recv_complete). Then each queue pair with returned slots notifies its owner
 * once. At the end of the turn, flush posts what the turn has queued: receives first, so that a
 * peer that has the response finds the receive for its next command.
 */
#include <sys/epoll.h>
#include <infiniband/verbs.h>

#include "base/bits.h"
#include "base/check.h"
#include "transport/cq.h"
#include "transport/cq_poll.h"
#include "transport/qp_impl.h"
#include "transport/qp_post.h"
#include "transport/recv_ring.h"

enum {
	/* Completions of a poll. Requests that a queue pair sends together shall stay together.
	 * From 32 to 128, with longer chains, 64 queues at depth 32 went from 408 to 514 k/s; 256
	 * is no better. */
	BATCH = 128,
	AHEAD = 6, /* prefetch distance: 256 queues at depth 32 had 548 k/s with it, 500 without */
	ACK_BATCH = 256, /* events: an acknowledgement takes a mutex */
};

/* rxe returns the kernel's value of the flag, which is IBV_WC_IP_CSUM_OK in libibverbs. A reliable
 * connection never has that flag otherwise. */
static bool has_invalidated(const struct ibv_wc *wc)
{
	return wc->wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK);
}

static NOINLINE void on_receive_lost(struct qp *qp, const struct completion *c)
{
	if (c->status != IBV_WC_SUCCESS && !completion_is_flush(c))
		qp_break(qp, c);
	if (qp->own_ring.n_max)
		qp_check_drained(qp);
}

/* A ring of its own names its queue pair. NULL: the queue pair is not attached any more. */
static struct qp *receiver(const struct cq *cq, struct work *work, const struct ibv_wc *wc)
{
	struct qp *own = container_of(work, struct recv, work)->ring->qp;

	return own ? own : cq_find(cq, wc->qp_num);
}

static void dispatch(struct cq *cq, const struct ibv_wc *wc)
{
	struct work *work = (struct work *)(uintptr_t)wc->wr_id;
	struct completion c UNINITIALIZED;
	struct qp *qp;

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
	qp = receiver(cq, work, wc);
	if (!recv_complete(work, qp, &c) && qp)
		on_receive_lost(qp, &c);
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

static NOINLINE void flush_chains(struct cq *cq)
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

int cq_start(struct cq *cq)
{
	int r;

	cq->source = (struct loop_source){.poll = poll, .arm = arm, .flush = flush};
	cq->lfd = (struct loop_fd){.fd = cq->channel->fd,
				   .events = EPOLLIN,
				   .is_doorbell = true,
				   .on_event = on_channel_event};
	r = loop_fd_add(cq->loop, &cq->lfd);
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
