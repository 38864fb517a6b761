/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See queue_control.h and queue.h: what arrives at a queue as a whole. Messages of control, and
 * callbacks of the queue pair. queue_state.c has its states.
 *
 * A queue always ends the same way. Control sends `drain`. The poller starts nothing more, drops
 * requests that wait, and moves the queue pair to the error state. When every work request is back
 * and no request is in use, the poller detaches the queue and sends `over`. A poller that finds a
 * failure sends `failed` and waits for `drain`.
 *
 * Messages of one thread arrive in order, and each is sent once, so none can outlive the queue.
 * `over` is the last that a poller sends. `drain` is the last that it receives, except for answers
 * that it waits for (n_busy).
 */
#include <errno.h>
#include <stdio.h>

#include "target/config/limits.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue_control.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/record/target.h"
#include "transport/cq.h"
#include "transport/qp_post.h"

/* ---- control ------------------------------------------------------------------------- */

static void attach(struct loop_msg *msg);
static void finish_up(struct loop_msg *msg);
static void part(struct loop_msg *msg);
static void drain(struct loop_msg *msg);
static void abandon(struct loop_msg *msg);

void queue_init(struct queue *queue)
{
	queue->attach.run = attach;
	queue->finish.msg.run = finish_up;
	queue->part.run = part;
	queue->drain.run = drain;
	queue->abandon.run = abandon;
	list_init(&queue->poller_node);
}

void queue_attach(struct queue *queue)
{
	loop_send(&queue->poller->loop, &queue->attach);
}

void queue_finish(struct queue *queue, const char *why)
{
	queue->finish.why = why;
	loop_send(&queue->poller->loop, &queue->finish.msg);
}

void queue_part(struct queue *queue)
{
	loop_send(&queue->poller->loop, &queue->part);
}

void queue_drain(struct queue *queue)
{
	loop_send(&queue->poller->loop, &queue->drain);
}

void queue_abandon(struct queue *queue)
{
	loop_send(&queue->poller->loop, &queue->abandon);
}

/* ---- poller -------------------------------------------------------------------------- */

static void on_broken(struct qp *qp, const struct completion *c)
{
	struct queue *queue = qp->context;

	if (!completion_is_flush(c)) {
		queue_fail(queue, "a transfer failed: %s", completion_string(c));
		return;
	}
	/* The peer disconnected; or control did, which moved the queue pair to the error state. */
	if (!queue_may_fail(queue))
		return;
	snprintf(queue->failed.why, sizeof(queue->failed.why), "the connection broke");
	queue_send_failed(queue, false);
}

static void on_drained(struct qp *qp)
{
	struct queue *queue = qp->context;

	queue_move(queue, QUEUE_DRAINED);
	queue->n_busy++;
	queue_done_one(queue);
}

static_assert(QUEUE_DEPTH_MAX * sizeof(struct nvme_cqe) <= BLOCK_MIN,
	      "the responses of the largest queue fit: queue_send_depth");

/* Without inline data, responses leave from registered memory. */
static int place_responses(struct queue *queue)
{
	if (queue->qp.max_inline >= sizeof(struct nvme_cqe))
		return 0;
	return buffer_take(&queue->poller->admin, queue->n_slots * sizeof(struct nvme_cqe),
			   &queue->cqes) == BUFFER_TAKEN
		       ? 0
		       : -ENOBUFS;
}

static void attach(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, attach);
	struct qp *qp = &queue->qp;
	int r = place_responses(queue);

	qp->context = queue;
	qp->on_broken = on_broken;
	qp->on_drained = on_drained;
	if (r == 0)
		r = qp_attach(qp);
	if (qp_is_attached(qp->state))
		queue_join_poller(queue);
	if (queue->state == QUEUE_NEW) /* else it broke during qp_attach */
		queue_move(queue, r == 0 ? QUEUE_SERVING : QUEUE_FAILED);
	queue->attached.error = r;
	loop_send(&queue->target->loop, &queue->attached.msg);
}

static void drain(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, drain);

	queue_move(queue, QUEUE_DRAINING);
	queue->n_busy++; /* until the end of this function */
	queue->abort_waiting(queue);
	queue->on_drain(queue);
	if (qp_is_attached(queue->qp.state))
		qp_drain(&queue->qp);
	else
		queue_move(queue, QUEUE_DRAINED);
	queue_done_one(queue);
}

/* A queue that is not drained yet has data on the wire. */
static void abandon(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, abandon);

	if (queue->state == QUEUE_DRAINED)
		queue->abandon_lost(queue);
	loop_send(&queue->target->loop, &queue->abandoned);
}

static void finish_up(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, finish.msg);

	if (queue->state != QUEUE_SERVING)
		return;
	queue_move(queue, QUEUE_FINISHING);
	qp_settle(&queue->qp);
	queue_check_finished(queue);
}

static void part(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, part);

	if (queue->state != QUEUE_SERVING)
		return;
	queue_move(queue, QUEUE_PARTING);
	queue_check_parted(queue);
}
