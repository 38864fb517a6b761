/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of an I/O queue on its loop, and what ends a connection: an error, or a command
 * without an answer. I/O loop only.
 *
 *   DETACHED -> STARTING -> LIVE
 *      ^           |          |    host_queue_fail, or control stops the queue
 *      |           v          v
 *      +--------- FAILED <----+    drained
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "initiator/io/queue.h"

enum {
	OVERDUE = 10, /* times io_timeout: such a command is given up in any case */
};

#define TO(s) STATE_TO(HOST_QUEUE_##s)
static const struct state_rule rules[] = {
	[HOST_QUEUE_DETACHED] = {"detached", TO(STARTING)},
	[HOST_QUEUE_STARTING] = {"starting", TO(LIVE) | TO(FAILED)},
	[HOST_QUEUE_LIVE] = {"live", TO(FAILED)},
	[HOST_QUEUE_FAILED] = {"failed", TO(DETACHED)},
};
#undef TO

void host_queue_move(struct volume_queue *queue, enum host_queue_state next)
{
	states_move("host queue", rules, &queue->state, next);
}

void host_queue_fail(struct volume_queue *queue, const char *fmt, ...)
{
	va_list ap;

	if (queue->state == HOST_QUEUE_FAILED || queue->state == HOST_QUEUE_DETACHED)
		return;
	host_queue_move(queue, HOST_QUEUE_FAILED);
	va_start(ap, fmt);
	vsnprintf(queue->fail_reason, sizeof(queue->fail_reason), fmt, ap);
	va_end(ap);
	loop_send(queue->control, &queue->failed_msg);
}

/*
 * A command is old. That is no reason to end the association while the target is only slow: a rate
 * may hold commands for long, and after a reconnect it would hold the same ones again, from the
 * start. It is slow as long as it answers others on this queue, or Keep Alive, without which
 * control ends the association. But a command may have been forgotten: beyond OVERDUE times the
 * timeout it is.
 */
static bool is_only_slow(struct volume_queue *queue, uint64_t age)
{
	bool has_progress = queue->table.n_answered != queue->n_answered_before;

	queue->n_answered_before = queue->table.n_answered;
	return age < OVERDUE * queue->io_timeout_ns && (has_progress || queue->is_watched) &&
	       list_entry(queue->table.in_flight.next, struct command, node)->io;
}

static void tell_slow(struct volume_queue *queue, uint64_t age)
{
	if (queue->has_told_slow)
		return;
	queue->has_told_slow = true;
	log_warn("queue %u: no answer to a command for %llu s, but the target is there: waiting on",
		 queue->limits.qid, (unsigned long long)(age / NSEC_PER_SEC));
}

void queue_on_timeout(struct loop_timer *timer)
{
	struct volume_queue *queue = container_of(timer, struct volume_queue, io_timer);
	struct list *in_flight = &queue->table.in_flight;
	uint64_t age;

	if (list_is_empty(in_flight) || queue->state == HOST_QUEUE_FAILED)
		return;
	age = clock_ns() - list_entry(in_flight->next, struct command, node)->start_ns;
	if (age < queue->io_timeout_ns) {
		loop_timer_start(queue->loop, timer, queue->io_timeout_ns - age);
		return;
	}
	if (is_only_slow(queue, age)) {
		tell_slow(queue, age);
		loop_timer_start(queue->loop, timer, queue->io_timeout_ns);
		return;
	}
	host_queue_fail(queue, "no answer to a command for %llu s",
			(unsigned long long)(age / NSEC_PER_SEC));
}

/* One timer for all commands: the first starts it, and it looks at the oldest. */
void queue_watch_timeout(struct volume_queue *queue)
{
	if (loop_timer_is_running(&queue->io_timer))
		return;
	queue->n_answered_before = queue->table.n_answered;
	loop_timer_start(queue->loop, &queue->io_timer, queue->io_timeout_ns);
}
