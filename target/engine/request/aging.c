/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See aging.h. A timer of the poller looks at its queues while a write is in a store. A write older
 * than AGED_MS is entered in the guard of its namespace (guard_add_aged), where all pollers see its
 * range. A younger copy needs no entry: a host that has just lost a path needs longer than that to
 * notice, and to repeat what it has sent.
 *
 * A parked write tries again at each RETRY_MS. It ends without Do Not Retry after fencing.quiesce,
 * since the host gives up at some time: the host sends it again, and the order is kept.
 */
#include "base/clock.h"
#include "base/ticks.h"
#include "target/engine/request/aging.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/host.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_run.h"
#include "target/export/guard/aged.h"
#include "transport/wire/strings.h"

enum {
	AGED_MS = 500,
	LOOK_MS = 250,
	RETRY_MS = 5,
};

static uint64_t age_ns(const struct request *r, uint64_t now_ticks)
{
	return now_ticks > r->timing.started ? ticks_to_ns(now_ticks - r->timing.started) : 0;
}

static void enter_aged(struct request *r)
{
	guard_add_aged(&r->pass);
	log_debug(
		"host %s: a write to namespace %u takes long: its other paths wait with those blocks",
		hostnqn_label(r->queue->controller->hostnqn), r->ns->nsid);
}

/* Whether the queue has writes in a store; those that are old are entered. */
static bool look_at_queue(struct queue *queue, uint64_t now_ticks)
{
	bool has_writes = false;

	for (unsigned i = 0; i < queue->n_requests; i++) {
		struct request *r = &queue->requests[i];

		if (r->state == REQUEST_FREE || !r->pass.guard || !r->pass.is_inside ||
		    r->pass.access != ACCESS_WRITE)
			continue;
		has_writes = true;
		if (!r->pass.is_aged && age_ns(r, now_ticks) >= AGED_MS * NSEC_PER_MSEC)
			enter_aged(r);
	}
	return has_writes;
}

static bool look_at_all(struct poller *poller)
{
	uint64_t now_ticks = ticks_now();
	bool has_writes = false;

	list_for_each (node, &poller->queues)
		has_writes |= look_at_queue(list_entry(node, struct queue, poller_node), now_ticks);
	poller->looked_ns = poller->loop.now_ns;
	return has_writes;
}

static void try_again(struct request *r, uint64_t now_ticks)
{
	if (age_ns(r, now_ticks) < r->queue->target->quiesce_ns) {
		request_run(r, (enum request_state)r->parked_at);
		return;
	}
	counter_add(&r->counters->n_errors, 1);
	request_run(r, request_end(r, NVME_ANA_TRANSITION));
}

/* In the order in which they came. Those that must still wait are parked again. */
static void try_all(struct poller *poller)
{
	uint64_t now_ticks = ticks_now();
	struct list waiting, *node;

	list_init(&waiting);
	list_splice_tail(&waiting, &poller->fenced);
	while ((node = list_take_first(&waiting)))
		try_again(request_of_pass(list_entry(node, struct pass, wait)), now_ticks);
}

static void plan(struct poller *poller)
{
	bool is_waiting = !list_is_empty(&poller->fenced);

	if (!is_waiting && !poller->is_aging)
		return;
	loop_timer_start(&poller->loop, &poller->aging,
			 (is_waiting ? RETRY_MS : LOOK_MS) * NSEC_PER_MSEC);
}

static void on_aging(struct loop_timer *timer)
{
	struct poller *poller = container_of(timer, struct poller, aging);

	try_all(poller);
	if (poller->loop.now_ns >= poller->looked_ns + LOOK_MS * NSEC_PER_MSEC)
		poller->is_aging = look_at_all(poller);
	plan(poller);
}

void aging_init(struct poller *poller)
{
	list_init(&poller->fenced);
	poller->aging.on_expiry = on_aging;
}

void aging_watch(struct poller *poller)
{
	poller->is_aging = true;
	poller->looked_ns = poller->loop.now_ns;
	if (!loop_timer_is_running(&poller->aging))
		plan(poller);
}

bool aging_must_wait(const struct request *r)
{
	unsigned flags = guard_flags(r->pass.guard);

	if (r->pass.access != ACCESS_WRITE)
		return false;
	if (flags & GUARD_HOST_DYING && r->queue->host && atomic_load(&r->queue->host->n_dying))
		return true;
	return flags & GUARD_AGED && guard_is_fenced(&r->pass);
}

enum request_state aging_park(struct request *r)
{
	struct poller *poller = r->queue->poller;

	bool is_first = list_is_empty(&poller->fenced);

	r->parked_at = r->state;
	list_add_tail(&poller->fenced, &r->pass.wait);
	if (is_first)
		plan(poller);
	return REQUEST_PARKED;
}
