/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/rpc_server.h"
#include "nbd_bridge/control/bridge_internal.h"
#include "nbd_bridge/control/bridge_path.h"
#include "nbd_bridge/control/bridge_state.h"
#include "nbd_bridge/control/bridge_stop.h"
#include "nbd_bridge/control/stdio.h"

#define STOP_DEADLINE_NS (10 * NSEC_PER_SEC)

static void close_volume(struct bridge *bridge)
{
	pool_free_workers(&bridge->pool);
	bridge_move(bridge, BRIDGE_CLOSING);
	volume_close(bridge->volume);
}

static void on_queue_removed(void *context)
{
	struct bridge *bridge = context;

	if (--bridge->n_removing == 0)
		close_volume(bridge);
}

static void remove_queues(struct bridge *bridge)
{
	bridge_move(bridge, BRIDGE_REMOVING);
	bridge->n_removing = bridge->pool.n_workers;
	if (!bridge->pool.n_workers)
		close_volume(bridge);
	list_for_each (node, &bridge->pool.workers)
		volume_queue_remove(list_entry(node, struct worker, node)->nbd.queue,
				    on_queue_removed, bridge);
}

static void on_flushed(struct worker *worker, int error)
{
	struct bridge *bridge = worker->owner;

	if (error && !bridge->exit_code) {
		bridge->exit_code = EXIT_FAILED;
		bridge->error->code = EXIT_FAILED;
		snprintf(bridge->error->message, sizeof(bridge->error->message),
			 "the last flush failed, acknowledged data may be lost");
		log_err("volume %s: %s", bridge->config->name, bridge->error->message);
	}
	remove_queues(bridge);
}

/* A target that is away is not waited for where it has nothing to flush. One that answers gets the
 * flush in any case. */
static bool needs_flush(const struct bridge *bridge)
{
	struct volume_status status;

	if (!bridge->pool.n_workers || bridge->export.is_read_only)
		return false;
	volume_get_status(bridge->volume, &status);
	return status.n_paths_live || status.has_unflushed;
}

void bridge_stop_goes_on(struct bridge *bridge)
{
	if (bridge->state != BRIDGE_STOPPING || bridge->n_conns ||
	    bridge->departure.state == BRIDGE_DEPARTURE_FLUSHING)
		return;
	if (!needs_flush(bridge)) {
		remove_queues(bridge);
		return;
	}
	bridge_move(bridge, BRIDGE_FLUSHING);
	worker_flush_volume(list_entry(bridge->pool.workers.next, struct worker, node), on_flushed);
}

static void on_deadline(struct loop_timer *timer)
{
	struct bridge *bridge = container_of(timer, struct bridge, deadline);

	log_err("volume %s: the target did not answer for 10 s; leaving with %u connections open",
		bridge->config->name, bridge->n_conns);
	if (bridge->sockets)
		bridge->sockets->ops->stop(bridge->sockets, false);
	rpc_server_free(bridge->rpc);
	stdio_leave();
	_exit(EXIT_UNREACHABLE);
}

void bridge_stop(struct bridge *bridge, bool may_leave)
{
	if (bridge->state > BRIDGE_SERVING)
		return;
	bridge->deadline.on_expiry = on_deadline;
	loop_timer_start(&bridge->loop, &bridge->deadline, STOP_DEADLINE_NS);
	if (bridge->state == BRIDGE_OPENING) {
		bridge_move(bridge, BRIDGE_CLOSING);
		volume_close(bridge->volume);
		return;
	}
	bridge_move(bridge, BRIDGE_STOPPING);
	pool_stop(&bridge->pool);
	bridge_path_stop(bridge);
	if (bridge->kernel)
		bridge->kernel->ops->stop(bridge->kernel, may_leave);
	bridge->sockets->ops->stop(bridge->sockets, may_leave);
	list_for_each (node, &bridge->pool.workers)
		worker_stop_conns(list_entry(node, struct worker, node));
	bridge_stop_goes_on(bridge);
}

void bridge_fail(struct bridge *bridge, const struct error *error)
{
	*bridge->error = *error;
	bridge->exit_code = (int)error->code;
	bridge_stop(bridge, true);
}
