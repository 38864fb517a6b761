/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See throttle.h. A command passes two limits, its namespace's and its host's; it waits in the line of
 * the first that is used up, and pays both when both have enough. New commands do not overtake those in
 * line. What came in a capsule does not keep the receive while it waits, when those become few.
 */
#include "base/bits.h"
#include "target/controller.h"
#include "target/host.h"
#include "target/io/io.h"
#include "target/qos/throttle.h"
#include "target/receives.h"

enum {
	QOS_MAX = 2, /* of a command: namespace and host */
};

static_assert((int)QOS_LINES == POLLERS_MAX, "a line for each");

/* ---- one command ---------------------------------------------------------------------------- */

static bool is_on(const struct qos *qos)
{
	return atomic_load_explicit(&qos->is_on, memory_order_relaxed);
}

bool throttle_applies(const struct request *r)
{
	return is_on(&r->ns->qos) || is_on(&r->queue->controller->host->qos);
}

/* Of these, how many. */
static unsigned find_limits(const struct request *r, struct qos *ret_limits[QOS_MAX])
{
	struct qos *all[QOS_MAX] = {&r->ns->qos, &r->queue->controller->host->qos};
	unsigned n = 0;

	for (unsigned i = 0; i < QOS_MAX; i++)
		if (is_on(all[i]))
			ret_limits[n++] = all[i];
	return n;
}

/* What it costs. False: nothing, it is never held. */
static bool find_cost(const struct request *r, uint64_t cost[QOS_KINDS])
{
	cost[QOS_OPERATIONS] = 1;
	switch (r->sqe.opcode) {
	case NVME_IO_READ:
	case NVME_IO_COMPARE:
	case NVME_IO_VERIFY:
		cost[QOS_READ] = io_n_bytes(r);
		return true;
	case NVME_IO_WRITE:
		cost[QOS_WRITE] = r->length;
		return true;
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_DSM:
	case NVME_IO_COPY:
		return true;
	default:
		return false;
	}
}

static struct qos_line *line_of(struct qos *qos, const struct poller *poller)
{
	return &qos->lines[poller->index];
}

/* 0, or how long to wait. */
static uint64_t fill_purses(struct qos *qos, const struct request *r,
			    const uint64_t cost[QOS_KINDS])
{
	const struct poller *poller = r->queue->poller;
	struct qos_line *line = line_of(qos, poller);
	uint64_t wait_ns = 0;

	for (unsigned i = 0; i < QOS_KINDS; i++)
		if (cost[i])
			wait_ns = MAX(wait_ns,
				      bucket_fill(&qos->buckets[i], &line->purses[i],
						  cost[i], poller->loop.now_ns));
	return wait_ns;
}

/* NULL: it has paid all. Else which limit it must wait for, and how long. */
static struct qos *pay(const struct request *r, uint64_t *ret_wait_ns)
{
	uint64_t cost[QOS_KINDS] = {0};
	struct qos *limits[QOS_MAX];
	unsigned n = find_limits(r, limits);

	find_cost(r, cost);
	for (unsigned i = 0; i < n; i++) {
		*ret_wait_ns = fill_purses(limits[i], r, cost);
		if (*ret_wait_ns)
			return limits[i];
	}
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < QOS_KINDS; k++)
			bucket_spend(&limits[i]->buckets[k],
				     &line_of(limits[i], r->queue->poller)->purses[k],
				     cost[k]);
	return NULL;
}

static void wake_in(struct poller *poller, uint64_t wait_ns)
{
	struct loop_timer *timer = &poller->throttle;

	if (!loop_timer_is_running(timer) ||
	    timer->deadline_ns > poller->loop.now_ns + wait_ns)
		loop_timer_start(&poller->loop, timer, wait_ns);
}

static void stand_in_line(struct request *r, struct qos *qos, uint64_t wait_ns)
{
	struct poller *poller = r->queue->poller;
	struct qos_line *line = line_of(qos, poller);

	fair_add(&line->waiters, &r->turn, r->queue);
	if (list_is_empty(&line->node))
		list_add_tail(&poller->throttled, &line->node);
	wake_in(poller, wait_ns);
}

__attribute__((noinline)) bool throttle_hold(struct request *r)
{
	uint64_t cost[QOS_KINDS] = {0}, wait_ns = 0;
	struct qos *limits[QOS_MAX], *qos = NULL;
	unsigned n = find_limits(r, limits);

	if (!n || !find_cost(r, cost))
		return false;
	for (unsigned i = 0; i < n && !qos; i++)
		if (!fair_is_empty(&line_of(limits[i], r->queue->poller)->waiters))
			qos = limits[i];
	if (!qos)
		qos = pay(r, &wait_ns);
	if (!qos)
		return false;
	receive_spare(r);
	if (wait_ns)
		stand_in_line(r, qos, wait_ns);
	else /* behind others, whose time the timer knows */
		fair_add(&line_of(qos, r->queue->poller)->waiters, &r->turn, r->queue);
	return true;
}

/* ---- those who wait ------------------------------------------------------------------------- */

static void drop_empty_lines(struct poller *poller)
{
	list_for_each_safe (node, &poller->throttled) {
		struct qos_line *line = list_entry(node, struct qos_line, node);

		if (fair_is_empty(&line->waiters))
			list_remove(&line->node);
	}
}

void throttle_leave(struct request *r)
{
	fair_remove(&r->turn);
	drop_empty_lines(r->queue->poller);
}

/* The first of the flow whose turn it is goes on, or its flow waits for the next turn. */
static bool serve_first(struct poller *poller, struct qos_line *line)
{
	struct fair_entry *first = fair_first(&line->waiters);
	struct request *r = container_of(first, struct request, turn);
	uint64_t wait_ns;
	struct qos *qos = pay(r, &wait_ns);

	fair_rotate(&line->waiters);
	if (qos && line_of(qos, poller) == line) {
		wake_in(poller, wait_ns);
		return false;
	}
	fair_remove(&r->turn);
	if (qos)
		stand_in_line(r, qos, wait_ns);
	else
		request_run(r, REQUEST_TAKE_BUFFER);
	return true;
}

static void serve(struct poller *poller, struct qos_line *line)
{
	bool has_progress = true;

	while (has_progress) {
		unsigned n = fair_n_flows(&line->waiters);

		has_progress = false;
		while (n-- && !fair_is_empty(&line->waiters))
			has_progress |= serve_first(poller, line);
	}
}

void throttle_on_expiry(struct loop_timer *timer)
{
	struct poller *poller = container_of(timer, struct poller, throttle);

	list_for_each (node, &poller->throttled) {
		serve(poller, list_entry(node, struct qos_line, node));
	}
	drop_empty_lines(poller);
}
