/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a queue, and how it ends; queue.h has the drawing. Commands and their steps call
 * this file, and it calls none of them. Poller of the queue.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/states.h"
#include "target/engine/record/capsules.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/record/target.h"

#define TO(s) STATE_TO(QUEUE_##s)

static const struct state_rule rules[] = {
	[QUEUE_NEW] = {"new", TO(SERVING) | TO(FAILED)},
	[QUEUE_SERVING] = {"serving", TO(PARTING) | TO(FINISHING) | TO(FAILED) | TO(DRAINING)},
	[QUEUE_PARTING] = {"parting", TO(PARTED) | TO(FAILED) | TO(DRAINING)},
	[QUEUE_PARTED] = {"parted", TO(FAILED) | TO(DRAINING)},
	[QUEUE_FINISHING] = {"finishing", TO(FAILED) | TO(DRAINING)},
	[QUEUE_FAILED] = {"failed", TO(DRAINING)},
	[QUEUE_DRAINING] = {"draining", TO(DRAINED)},
	[QUEUE_DRAINED] = {"drained", TO(OVER)},
	[QUEUE_OVER] = {"over", 0},
};

static_assert(sizeof(rules) / sizeof(rules[0]) == QUEUE_OVER + 1, "a rule for each state");

static const struct state_rule access_rules[] = {
	[QUEUE_UNCONNECTED] = {"unconnected", TO(CONNECTING)},
	[QUEUE_CONNECTING] = {"connecting", TO(UNCONNECTED) | TO(UNPROVEN) | TO(CONNECTED)},
	[QUEUE_UNPROVEN] = {"unproven", TO(UNPROVEN) | TO(CONNECTED)},
	[QUEUE_CONNECTED] = {"connected", TO(UNPROVEN) | TO(CONNECTED)},
};

static_assert(sizeof(access_rules) / sizeof(access_rules[0]) == QUEUE_CONNECTED + 1,
	      "a rule for each");

void queue_move(struct queue *queue, enum queue_state next)
{
	states_move("queue", rules, &queue->state, next);
}

/* ---- failures ----------------------------------------------------------------------------- */

void queue_set_access(struct queue *queue, enum queue_access access, struct host *host)
{
	check(access <= QUEUE_CONNECTING || queue->controller); /* parse.c relies on it */
	if (!states_try(access_rules, &queue->access, access))
		queue_break(queue, "its access may not change from %s to %s",
			    access_rules[queue->access].name, access_rules[access].name);
	queue->host = host;
}

bool queue_may_fail(const struct queue *queue)
{
	static_assert(QUEUE_NEW < QUEUE_FINISHING && QUEUE_SERVING < QUEUE_FINISHING &&
			      QUEUE_FINISHING < QUEUE_FAILED,
		      "in order of life");

	return queue->state <= QUEUE_FINISHING;
}

void queue_send_failed(struct queue *queue, bool is_fault)
{
	queue_move(queue, QUEUE_FAILED);
	queue->failed.is_fault = is_fault;
	loop_send(&queue->target->loop, &queue->failed.msg);
}

void queue_fail(struct queue *queue, const char *fmt, ...)
{
	va_list args;

	if (!queue_may_fail(queue))
		return;
	va_start(args, fmt);
	vsnprintf(queue->failed.why, sizeof(queue->failed.why), fmt, args);
	va_end(args);
	capsules_keep_last(queue->capsules);
	queue_send_failed(queue, true);
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
	if (queue_may_fail(queue)) { /* else control may be reading the copy */
		capsules_keep_last(queue->capsules);
		queue_move(queue, QUEUE_FAILED);
	}
	queue->broken.is_sent = true;
	loop_send(&queue->target->loop, &queue->broken.msg);
}

/* ---- its poller --------------------------------------------------------------------------- */

static void count_io_queue(const struct queue *queue, int by)
{
	struct poller *poller = queue->poller;

	if (queue->qid == 0)
		return;
	poller->n_io_queues += by;
	loop_rest(&poller->loop, poller->n_io_queues == 0);
}

void queue_join_poller(struct queue *queue)
{
	list_add_tail(&queue->poller->queues, &queue->poller_node);
	count_io_queue(queue, 1);
}

/* Accepts one that never joined it. */
static void leave_poller(struct queue *queue)
{
	if (list_is_empty(&queue->poller_node))
		return;
	list_remove(&queue->poller_node);
	count_io_queue(queue, -1);
}

/* ---- the end ------------------------------------------------------------------------------ */

void queue_check_finished(struct queue *queue)
{
	if (queue->n_busy != queue->n_held || !qp_is_quiet(&queue->qp))
		return;
	snprintf(queue->failed.why, sizeof(queue->failed.why), "%s", queue->finish.why);
	queue_send_failed(queue, false);
}

/* Events that its host waits for are no commands that it waits for. An unsignaled response has no
 * data: it reaches its host, or does not, without a store. */
void queue_check_parted(struct queue *queue)
{
	if (queue->n_busy != queue->n_held || qp_has_signaled(&queue->qp))
		return;
	queue_move(queue, QUEUE_PARTED);
	loop_send(&queue->target->loop, &queue->parted);
}

static NOINLINE void check_over(struct queue *queue)
{
	if (queue->state == QUEUE_FINISHING)
		queue_check_finished(queue);
	if (queue->state == QUEUE_PARTING)
		queue_check_parted(queue);
	if (queue->state != QUEUE_DRAINED || queue->n_busy)
		return;
	queue_move(queue, QUEUE_OVER);
	if (qp_is_attached(queue->qp.state))
		qp_detach(&queue->qp);
	leave_poller(queue);
	buffer_give(queue->poller, &queue->cqes);
	loop_send(&queue->target->loop, &queue->over);
}

void queue_done_one(struct queue *queue)
{
	check(queue->n_busy > 0);
	queue->n_busy--;
	if (UNLIKELY(queue->state != QUEUE_SERVING))
		check_over(queue);
}
