/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "library/descriptor.h"
#include "library/handle.h"
#include "library/keeper.h"
#include "library/process.h"

#define TICK_NS (10 * NSEC_PER_MSEC)

/* The caller may sleep on the queue's descriptor. */
static void wake(struct rblk_queue *queue)
{
	uint64_t one = 1;

	if (write(queue->ready.fd, &one, sizeof(one)) < 0)
		return; /* the counter is full, so it is readable */
}

static void run_pass(struct rblk_queue *queue)
{
	if (!queue_try_enter(queue))
		return;
	loop_poll(&queue->loop);
	if (queue->is_armed && (queue->ended || !queue_arm(queue)))
		wake(queue);
	queue_leave(queue);
}

/* Connected, with nothing to be done; or given up. A path that is away settles, too, until the
 * volume says that it is back. */
static bool is_settled(struct rblk_volume *volume, const struct volume_status *status)
{
	list_for_each (node, &volume->queues)
		if (atomic_load(&list_entry(node, struct rblk_queue, node)->loop.inbox))
			return false;
	for (unsigned i = 0; i < status->n_paths; i++)
		if (status->paths[i].wants_queues)
			return false;
	return status->state == VOLUME_FAILED || status->state == VOLUME_LIVE;
}

void keeper_start(struct rblk_volume *volume)
{
	if (!loop_timer_is_running(&volume->keeper))
		loop_timer_start(process_loop(), &volume->keeper, TICK_NS);
}

static void on_tick(struct loop_timer *timer)
{
	struct rblk_volume *volume = container_of(timer, struct rblk_volume, keeper);
	struct volume_status status;

	list_for_each (node, &volume->queues)
		run_pass(list_entry(node, struct rblk_queue, node));
	volume_get_status(volume->volume, &status);
	departure_look(volume, &status);
	if (!is_settled(volume, &status))
		keeper_start(volume);
}

void keeper_init(struct rblk_volume *volume)
{
	volume->keeper.on_expiry = on_tick;
}
