/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See queue.h. Control creates and frees the memory; in between the poller moves the queue through
 * its states.
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
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/states.h"
#include "target/engine/capsules.h"
#include "target/engine/queue.h"
#include "target/engine/request.h"
#include "target/engine/response.h"

#define TO(s) STATE_TO(QUEUE_##s)

static const struct state_rule rules[] = {
	[QUEUE_NEW] = {"new", TO(SERVING) | TO(FAILED)},
	[QUEUE_SERVING] = {"serving", TO(FINISHING) | TO(FAILED) | TO(DRAINING)},
	[QUEUE_FINISHING] = {"finishing", TO(FAILED) | TO(DRAINING)},
	[QUEUE_FAILED] = {"failed", TO(DRAINING)},
	[QUEUE_DRAINING] = {"draining", TO(DRAINED)},
	[QUEUE_DRAINED] = {"drained", TO(OVER)},
	[QUEUE_OVER] = {"over", 0},
};

static const struct state_rule access_rules[] = {
	[QUEUE_UNCONNECTED] = {"unconnected", TO(CONNECTING)},
	[QUEUE_CONNECTING] = {"connecting", TO(UNCONNECTED) | TO(UNPROVEN) | TO(CONNECTED)},
	[QUEUE_UNPROVEN] = {"unproven", TO(UNPROVEN) | TO(CONNECTED)},
	[QUEUE_CONNECTED] = {"connected", TO(UNPROVEN) | TO(CONNECTED)},
};

static void move_to(struct queue *queue, enum queue_state next)
{
	states_move("queue", rules, &queue->state, next);
}

/* ---- control ------------------------------------------------------------------------- */

static void attach(struct loop_msg *msg);
static void finish_up(struct loop_msg *msg);
static void drain(struct loop_msg *msg);

void queue_init(struct queue *queue)
{
	queue->attach.run = attach;
	queue->finish.msg.run = finish_up;
	queue->drain.run = drain;
	list_init(&queue->slot_waiters);
	list_init(&queue->read_waiters);
	list_init(&queue->short_node);
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

void queue_drain(struct queue *queue)
{
	loop_send(&queue->poller->loop, &queue->drain);
}

/* ---- poller -------------------------------------------------------------------------- */

void queue_set_access(struct queue *queue, enum queue_access access, struct host *host)
{
	if (!states_try(access_rules, &queue->access, access))
		queue_break(queue, "its access may not change from %s to %s",
			    access_rules[queue->access].name, access_rules[access].name);
	queue->host = host;
}

static bool may_fail(const struct queue *queue)
{
	return queue->state <= QUEUE_FINISHING;
}

static void send_failed(struct queue *queue, bool is_fault)
{
	move_to(queue, QUEUE_FAILED);
	queue->failed.is_fault = is_fault;
	loop_send(&queue->target->loop, &queue->failed.msg);
}

void queue_fail(struct queue *queue, const char *fmt, ...)
{
	va_list args;

	if (!may_fail(queue))
		return;
	va_start(args, fmt);
	vsnprintf(queue->failed.why, sizeof(queue->failed.why), fmt, args);
	va_end(args);
	capsules_keep_last(queue->capsules);
	send_failed(queue, true);
}

/* A command whose state is wrong keeps all that it holds until it comes back: the device or the
 * disk may use it. */
void queue_break(struct queue *queue, const char *fmt, ...)
{
	va_list args;

	if (queue->broken.is_sent)
		return;
	va_start(args, fmt);
	vsnprintf(queue->broken.what, sizeof(queue->broken.what), fmt, args);
	va_end(args);
	if (may_fail(queue)) { /* else control may be reading the copy */
		capsules_keep_last(queue->capsules);
		move_to(queue, QUEUE_FAILED);
	}
	queue->broken.is_sent = true;
	loop_send(&queue->target->loop, &queue->broken.msg);
}

static void on_broken(struct qp *qp, const struct completion *c)
{
	struct queue *queue = qp->context;

	if (!completion_is_flush(c)) {
		queue_fail(queue, "a transfer failed: %s", completion_string(c));
		return;
	}
	/* The peer disconnected; or control did, which moved the queue pair to the error state. */
	if (!may_fail(queue))
		return;
	snprintf(queue->failed.why, sizeof(queue->failed.why), "the connection broke");
	send_failed(queue, false);
}

static void on_drained(struct qp *qp)
{
	struct queue *queue = qp->context;

	move_to(queue, QUEUE_DRAINED);
	queue->n_busy++;
	queue_done_one(queue);
}

static void on_credit(struct qp *qp)
{
	struct queue *queue = qp->context;

	request_resume(queue);
	if (queue->state == QUEUE_FINISHING) {
		queue->n_busy++;
		queue_done_one(queue);
	}
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
	qp->on_credit = on_credit;
	if (qp->own_ring.n_max)
		qp->own_ring.on_recv = request_on_recv;
	if (r == 0)
		r = qp_attach(qp);
	if (qp->is_attached)
		list_add_tail(&queue->poller->queues, &queue->poller_node);
	if (queue->state == QUEUE_NEW) /* else it broke during qp_attach */
		move_to(queue, r == 0 ? QUEUE_SERVING : QUEUE_FAILED);
	queue->attached.error = r;
	loop_send(&queue->target->loop, &queue->attached.msg);
}

static void drain(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, drain);

	move_to(queue, QUEUE_DRAINING);
	queue->n_busy++; /* until the end of this function */
	request_abort_waiting(queue);
	queue->on_drain(queue);
	if (queue->qp.is_attached)
		qp_drain(&queue->qp);
	else
		move_to(queue, QUEUE_DRAINED);
	queue_done_one(queue);
}

static void check_finished(struct queue *queue)
{
	if (queue->n_busy != queue->n_held || !qp_is_quiet(&queue->qp))
		return;
	snprintf(queue->failed.why, sizeof(queue->failed.why), "%s", queue->finish.why);
	send_failed(queue, false);
}

static void finish_up(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, finish.msg);

	if (queue->state != QUEUE_SERVING)
		return;
	move_to(queue, QUEUE_FINISHING);
	check_finished(queue);
}

static COLD_PATH void check_over(struct queue *queue)
{
	if (queue->state == QUEUE_FINISHING)
		check_finished(queue);
	if (queue->state != QUEUE_DRAINED || queue->n_busy)
		return;
	move_to(queue, QUEUE_OVER);
	if (queue->qp.is_attached)
		qp_detach(&queue->qp);
	list_remove(&queue->poller_node);
	buffer_give(queue->poller, &queue->cqes);
	loop_send(&queue->target->loop, &queue->over);
}

void queue_done_one(struct queue *queue)
{
	check(queue->n_busy > 0);
	queue->n_busy--;
	if (__builtin_expect(queue->state != QUEUE_SERVING, 0))
		check_over(queue);
}
