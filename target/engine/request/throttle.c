/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See throttle.h. A command pays the rates of its namespace and then those of its host, one after
 * the other. It waits in the line of the rate that is used up. It never pays a rate twice, so two
 * short rates cannot send it back and forth. New commands do not overtake those in line. While a
 * command waits, in-capsule data is copied out of its receive if receives are scarce.
 */
#include "base/bits.h"
#include "base/check.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/host.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/receives.h"
#include "target/engine/request/request_namespace.h"
#include "target/engine/request/throttle.h"

enum {
	LIMITS = 2, /* of a command: its namespace's, its host's */
	STEPS = LIMITS * QOS_KINDS,
	LOOK_MS = 100, /* upper bound of a wait: rates may have changed */
};

/* ---- one command ---------------------------------------------------------------------------- */

static bool is_on(const struct qos *qos)
{
	return atomic_load_explicit(&qos->is_on, memory_order_relaxed);
}

bool throttle_applies(const struct request *r)
{
	return is_on(&r->ns->qos) || is_on(&r->queue->host->qos);
}

/* The cost of the command at a rate of this kind. */
static uint64_t find_cost(const struct request *r, enum qos_kind kind)
{
	static const enum qos_kind of_bytes[] = {[COST_READ] = QOS_READ, [COST_WRITE] = QOS_WRITE};
	enum command_cost cost = r->command->cost;

	if (cost == COST_NOTHING || kind == QOS_OPERATIONS)
		return cost != COST_NOTHING;
	return cost != COST_OPERATION && kind == of_bytes[cost] ? request_n_bytes(r) : 0;
}

static void wake_in(struct poller *poller, uint64_t wait_ns)
{
	struct loop_timer *timer = &poller->throttle;

	wait_ns = MIN(wait_ns, LOOK_MS * NSEC_PER_MSEC);
	if (!loop_timer_is_running(timer) || timer->deadline_ns > poller->loop.now_ns + wait_ns)
		loop_timer_start(&poller->loop, timer, wait_ns);
}

static void stand_in_line(struct request *r, struct line *line, uint64_t wait_ns)
{
	struct poller *poller = r->queue->poller;

	line_add(line, &r->turn, r->queue, &r->queue->past);
	r->line = line;
	if (list_is_empty(&line->node))
		list_add_tail(&poller->throttled, &line->node);
	wake_in(poller, wait_ns);
}

/* One rate: true if the command has paid it, or need not; otherwise the command is in line. */
static bool pay(struct request *r, struct qos *qos, enum qos_kind kind)
{
	struct poller *poller = r->queue->poller;
	struct line *line = &qos->lines[kind][poller->index];
	uint64_t n_tokens = is_on(qos) ? find_cost(r, kind) : 0, wait_ns;

	if (!n_tokens)
		return true;
	wait_ns = line_pay_at_once(line, &r->queue->past, n_tokens, poller->loop.now_ns);
	if (!wait_ns)
		return true;
	stand_in_line(r, line, wait_ns);
	return false;
}

/* True if all rates are paid; otherwise the command is in line. */
static bool pay_rest(struct request *r)
{
	struct qos *limits[LIMITS] = {&r->ns->qos, &r->queue->controller->host->qos};

	for (; r->n_paid < STEPS; r->n_paid++)
		if (!pay(r, limits[r->n_paid / QOS_KINDS], r->n_paid % QOS_KINDS))
			return false;
	return true;
}

NOINLINE bool throttle_hold(struct request *r)
{
	if (pay_rest(r))
		return false;
	r->held_ns = r->queue->poller->loop.now_ns;
	receive_spare(r);
	return true;
}

/* ---- waiting commands ----------------------------------------------------------------------- */

void throttle_leave(struct request *r)
{
	check(r->state == REQUEST_THROTTLED && !fair_is_empty(&r->line->waiters));
	r->held_ns = r->queue->poller->loop.now_ns - r->held_ns;
	line_leave(r->line, &r->turn);
	if (fair_is_empty(&r->line->waiters))
		list_remove(&r->line->node);
}

/* The first in line pays; it has paid all, or joins its next line. NULL: the rate is used up, or
 * the command is in another line. */
static struct request *serve_first(struct poller *poller, struct line *line, bool *ret_is_used_up)
{
	struct fair_entry *first = fair_first(&line->waiters);
	struct request *r = container_of(first, struct request, turn);
	uint64_t n_tokens = find_cost(r, r->n_paid % QOS_KINDS), wait_ns;

	wait_ns = line_pay_first(line, &r->queue->past, n_tokens, poller->loop.now_ns);
	*ret_is_used_up = wait_ns;
	if (wait_ns) {
		wake_in(poller, wait_ns);
		return NULL;
	}
	r->n_paid++;
	if (!pay_rest(r))
		return NULL;
	r->held_ns = poller->loop.now_ns - r->held_ns;
	return r;
}

/* Until one command of the line may go on. NULL: none may. */
static struct request *serve(struct poller *poller, struct line *line)
{
	struct request *r = NULL;
	bool is_used_up = false;

	while (!r && !is_used_up && !fair_is_empty(&line->waiters))
		r = serve_first(poller, line, &is_used_up);
	return r;
}

void throttle_take_lines(struct poller *poller, struct list *ret_lines)
{
	list_init(ret_lines);
	list_splice_tail(ret_lines, &poller->throttled);
}

/* A line stays in the list while its commands go on: those that join it meanwhile wait there. */
struct request *throttle_next(struct poller *poller, struct list *lines)
{
	while (!list_is_empty(lines)) {
		struct line *line = list_entry(lines->next, struct line, node);
		struct request *r = serve(poller, line);

		if (r)
			return r;
		list_remove(&line->node);
		if (!fair_is_empty(&line->waiters))
			list_add_tail(&poller->throttled, &line->node);
	}
	return NULL;
}
