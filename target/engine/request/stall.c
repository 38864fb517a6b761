/* SPDX-License-Identifier: BSD-3-Clause */
/* See stall.h. */
#include "base/clock.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/request_buffer.h"
#include "target/engine/request/response.h"
#include "target/engine/request/stall.h"
#include "target/engine/record/target.h"

enum {
	STALL_S = 5,
	STALL_LOOK_S = 1,
};

static bool is_stalled(const struct poller *poller, uint64_t since_ns)
{
	return poller->loop.now_ns - since_ns >= STALL_S * NSEC_PER_SEC;
}

/*
 * The first waiter keeps later ones back, so that small requests do not take every piece of the
 * large buffer that it needs. If it got nothing for a whole period, a disk that hangs holds what it
 * needs: others may overtake it.
 */
static void look_at_blocker(struct poller *poller, struct arena *arena)
{
	struct request *first = arena->is_exhausted ? request_first_waiter(arena) : NULL;

	if (first && first == arena->blocker) {
		first->may_be_passed = true;
		first = NULL;
		loop_defer(&poller->loop, &poller->resume);
	}
	arena->blocker = first;
}

static bool others_wait(const struct arena *arena, const struct queue *queue)
{
	unsigned n = fair_n_flows(&arena->waiters);

	return n > 1 || (n == 1 && request_first_waiter(arena)->queue != queue);
}

static void end_stalled(struct queue *queue)
{
	const struct poller *poller = queue->poller;

	if (poller->n_visits || poller->is_awaited || others_wait(&poller->data, queue) ||
	    others_wait(&poller->admin, queue))
		queue_fail(queue, "it does not take its data, and others wait");
}

static bool has_stalled_data(const struct poller *poller, const struct queue *queue)
{
	for (unsigned i = 0; i < queue->n_responses; i++) {
		uint64_t sending_ns = queue->responses[i].sending_ns;

		if (sending_ns && is_stalled(poller, sending_ns))
			return true;
	}
	return false;
}

static void on_stall(struct loop_timer *timer)
{
	struct poller *poller = container_of(timer, struct poller, stall);

	list_for_each (node, &poller->queues) {
		struct queue *queue = list_entry(node, struct queue, poller_node);

		if (has_stalled_data(poller, queue))
			end_stalled(queue);
	}
	list_for_each (node, &poller->short_queues) {
		struct queue *queue = list_entry(node, struct queue, short_node);

		if (is_stalled(poller, queue->credit_ns))
			end_stalled(queue);
	}
	look_at_blocker(poller, &poller->admin);
	look_at_blocker(poller, &poller->data);
	poller->is_awaited = false; /* a write that still waits sets it again */
	if (poller->n_visits || !fair_is_empty(&poller->data.waiters) ||
	    !fair_is_empty(&poller->admin.waiters))
		stall_watch(poller);
}

void stall_watch(struct poller *poller)
{
	if (!loop_timer_is_running(&poller->stall))
		loop_timer_start(&poller->loop, &poller->stall, STALL_LOOK_S * NSEC_PER_SEC);
}

static void on_look(struct loop_msg *msg)
{
	struct poller *poller = container_of(msg, struct poller, look);

	atomic_store(&poller->is_look_sent, false);
	poller->is_awaited = true;
	stall_watch(poller);
}

void stall_on_stuck(void *context)
{
	struct target *target = ((struct poller *)context)->target;

	for (unsigned i = 0; i < target->n_pollers; i++) {
		struct poller *poller = &target->pollers[i];

		if (!atomic_exchange(&poller->is_look_sent, true))
			loop_send(&poller->loop, &poller->look);
	}
}

void stall_init(struct poller *poller)
{
	poller->stall.on_expiry = on_stall;
	poller->look.run = on_look;
}
