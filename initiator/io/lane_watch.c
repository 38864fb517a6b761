/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   DETACHED -> STARTING -> LIVE
 *      ^           |          |    lane_fail, or control stops the lane
 *      |           v          v
 *      +--------- FAILED <----+    drained
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "initiator/io/choose.h"
#include "initiator/io/lane_watch.h"
#include "initiator/io/queue_impl.h"

enum {
	OVERDUE = 10, /* times io_timeout: such a command is given up in any case */
};

#define TO(s) STATE_TO(LANE_##s)
static const struct state_rule rules[] = {
	[LANE_DETACHED] = {"detached", TO(STARTING)},
	[LANE_STARTING] = {"starting", TO(LIVE) | TO(FAILED)},
	[LANE_LIVE] = {"live", TO(FAILED)},
	[LANE_FAILED] = {"failed", TO(DETACHED)},
};
#undef TO

void lane_move(struct lane *lane, enum lane_state next)
{
	states_move("lane", rules, &lane->state, next);
	choose_look(lane->queue);
}

void lane_fail(struct lane *lane, const char *fmt, ...)
{
	va_list ap;

	if (lane->state == LANE_FAILED || lane->state == LANE_DETACHED)
		return;
	lane_move(lane, LANE_FAILED);
	va_start(ap, fmt);
	vsnprintf(lane->fail_reason, sizeof(lane->fail_reason), fmt, ap);
	va_end(ap);
	loop_send(lane->queue->control, &lane->failed_msg);
}

/*
 * A command is old. That is no reason to end the association while the target is only slow: a rate
 * may hold commands for long, and after a reconnect it would hold the same ones again, from the
 * start. It is slow as long as it answers others on this lane, or Keep Alive, without which
 * control ends the association. But a command may have been forgotten: beyond OVERDUE times the
 * timeout it is.
 */
static bool is_only_slow(struct lane *lane, uint64_t age)
{
	uint64_t n_answered = command_n_answered(&lane->table);
	bool has_progress = n_answered != lane->n_answered_before;

	lane->n_answered_before = n_answered;
	return age < OVERDUE * lane->io_timeout_ns && (has_progress || lane->is_watched) &&
	       list_entry(lane->table.in_flight.next, struct command, node)->io;
}

static void tell_slow(struct lane *lane, uint64_t age)
{
	if (lane->has_told_slow)
		return;
	lane->has_told_slow = true;
	log_warn("queue %u: no answer to a command for %llu s, but the target is there: waiting on",
		 lane->limits.qid, (unsigned long long)(age / NSEC_PER_SEC));
}

void lane_on_timeout(struct loop_timer *timer)
{
	struct lane *lane = container_of(timer, struct lane, io_timer);
	struct list *in_flight = &lane->table.in_flight;
	uint64_t age;

	if (list_is_empty(in_flight) || lane->state == LANE_FAILED)
		return;
	age = clock_ns() - list_entry(in_flight->next, struct command, node)->start_ns;
	if (age < lane->io_timeout_ns) {
		loop_timer_start(lane->queue->loop, timer, lane->io_timeout_ns - age);
		return;
	}
	if (is_only_slow(lane, age)) {
		tell_slow(lane, age);
		loop_timer_start(lane->queue->loop, timer, lane->io_timeout_ns);
		return;
	}
	lane_fail(lane, "no answer to a command for %llu s",
		  (unsigned long long)(age / NSEC_PER_SEC));
}

/* One timer for all commands: the first starts it, and it looks at the oldest. */
void lane_watch_timeout(struct lane *lane)
{
	if (loop_timer_is_running(&lane->io_timer))
		return;
	lane->n_answered_before = command_n_answered(&lane->table);
	loop_timer_start(lane->queue->loop, &lane->io_timer, lane->io_timeout_ns);
}
