/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The phases of a path. Control loop only.
 *
 *   IDLE <-> WAITING -> CONNECTING -> LIVE
 *    | ^                 ^  | failed   | lost
 *    +-|-----------------+  v          v
 *      +------------------- RESETTING
 *
 * Whatever fails ends in path_take_down: everything is stopped, and when the last queue pair is
 * gone (on_all_stopped), the path is IDLE. The volume then has it wait for the next attempt: the
 * first at once, then after ever longer delays up to reconnect_delay.
 *
 * A target that answers, but refuses us, is an obstacle: the path tries again, slowly.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "initiator/control/attempt.h"
#include "initiator/control/controller.h"
#include "initiator/control/connection.h"
#include "initiator/control/memory.h"
#include "initiator/control/path.h"
#include "initiator/control/power.h"
#include "initiator/control/proof.h"
#include "initiator/control/volume_impl.h"
#include "initiator/io/queue_impl.h"

#define TO(s) STATE_TO(PATH_##s)
static const struct state_rule rules[] = {
	[PATH_IDLE] = {"idle", TO(WAITING) | TO(CONNECTING)},
	[PATH_WAITING] = {"waiting", TO(CONNECTING) | TO(IDLE)},
	[PATH_CONNECTING] = {"connecting", TO(LIVE) | TO(RESETTING)},
	[PATH_LIVE] = {"live", TO(RESETTING)},
	[PATH_RESETTING] = {"resetting", TO(IDLE)},
};
#undef TO

static void move(struct path *path, enum path_phase next)
{
	states_move("path", rules, &path->phase, next);
	path->phase_since_ns = clock_ns();
}

void path_set_obstacle(struct path *path, enum path_obstacle obstacle)
{
	if (obstacle != path->obstacle)
		path->n_refusals = 0;
	path->obstacle = obstacle;
}

/* ---- down ---- */

static bool is_all_stopped(const struct path *path)
{
	if (path->controller.state != CTRL_IDLE)
		return false;
	list_for_each (node, &path->volume->queues) {
		const struct lane *lane =
			list_entry(node, struct volume_queue, node)->lanes[path->index];

		if (lane && lane->connection->state != CONNECTION_IDLE)
			return false;
	}
	return true;
}

static void look_whether_stopped(struct path *path)
{
	if (path->phase == PATH_RESETTING && is_all_stopped(path))
		loop_defer(path->volume->control, &path->idle_call);
}

void path_on_lane_gone(struct path *path)
{
	look_whether_stopped(path);
}

static void stop_lanes(struct path *path)
{
	list_for_each (node, &path->volume->queues) {
		struct lane *lane = list_entry(node, struct volume_queue, node)->lanes[path->index];

		if (lane)
			connection_stop(lane);
	}
}

void path_take_down(struct path *path)
{
	loop_timer_stop(&path->attempt_timer);
	if (path->phase == PATH_IDLE)
		return;
	if (path->phase == PATH_WAITING) {
		move(path, PATH_IDLE);
		loop_defer(path->volume->control, &path->idle_call);
		return;
	}
	if (path->phase != PATH_RESETTING)
		move(path, PATH_RESETTING);
	stop_lanes(path);
	if (path->controller.state != CTRL_IDLE)
		controller_stop(&path->controller);
	look_whether_stopped(path);
}

void path_shut_down(struct path *path)
{
	if (path->phase != PATH_LIVE) {
		path_take_down(path);
		return;
	}
	move(path, PATH_RESETTING);
	stop_lanes(path);
	controller_shut_down(&path->controller);
}

void path_remove(struct path *path)
{
	if (path->phase != PATH_LIVE) {
		path_take_down(path);
		return;
	}
	path->lost_ns = clock_ns();
	move(path, PATH_RESETTING);
	path->ops->on_lost(path);
	stop_lanes(path);
	controller_shut_down(&path->controller);
}

/* The last queue pair of the association is gone. */
static void on_all_stopped(struct loop_call *call)
{
	struct path *path = container_of(call, struct path, idle_call);

	if (path->phase == PATH_RESETTING) {
		if (!is_all_stopped(path))
			return;
		memories_deregister(&path->volume->memories, path->index);
		controller_close_domain(&path->controller);
		check(list_is_empty(&path->cqs)); /* each went with its last queue pair */
		move(path, PATH_IDLE);
	}
	if (path->phase == PATH_IDLE)
		path->ops->on_idle(path);
}

void path_lose(struct path *path, const struct error *error)
{
	if (path->phase != PATH_LIVE)
		return;
	path->last_error = *error;
	path->lost_ns = clock_ns();
	path->n_lost++;
	if (path->lost_ns - path->live_since_ns >= ATTEMPT_STABLE_NS)
		path->n_attempts = 0;
	move(path, PATH_RESETTING);
	path->ops->on_lost(path);
	path_take_down(path);
}

/* ---- the next attempt ---- */

static uint64_t delay_ns(const struct path *path)
{
	uint64_t max_ns = path->config.reconnect_delay_ns;

	return path->obstacle ? attempt_obstacle_delay_ns(path->n_refusals, max_ns)
			      : attempt_delay_ns(path->n_attempts, max_ns);
}

void path_wait_for(struct path *path, uint64_t delay)
{
	move(path, PATH_WAITING);
	loop_timer_start(path->volume->control, &path->attempt_timer, delay);
}

void path_wait(struct path *path)
{
	path_wait_for(path, delay_ns(path));
	path->n_attempts++;
	path->controller.connect_timeout_ns = attempt_timeout_ns(path->n_attempts);
}

void path_connect(struct path *path)
{
	loop_timer_stop(&path->attempt_timer);
	move(path, PATH_CONNECTING);
	controller_start(&path->controller);
}

static void on_attempt(struct loop_timer *timer)
{
	path_connect(container_of(timer, struct path, attempt_timer));
}

/* ---- the controller's news ---- */

static void on_live(struct controller *c)
{
	struct path *path = c->context;

	if (path->phase != PATH_CONNECTING)
		return;
	if (path->ops->on_association(path) < 0) {
		path_take_down(path);
		return;
	}
	path_set_obstacle(path, OBSTACLE_NONE);
	path->live_since_ns = clock_ns();
	move(path, PATH_LIVE);
	path->ops->on_live(path);
	list_for_each (node, &path->volume->queues) {
		struct lane *lane = list_entry(node, struct volume_queue, node)->lanes[path->index];

		if (lane)
			connection_start(lane);
	}
}

static void on_down(struct controller *c)
{
	struct path *path = c->context;

	if (path->phase == PATH_LIVE) {
		/* not at once again and again: the target may be hostile */
		if (c->cause == CAUSE_ASKED)
			path->n_attempts = MIN(path->n_attempts, 1u);
		path_lose(path, &c->error);
		return;
	}
	if (path->phase == PATH_CONNECTING) {
		path->last_error = c->error;
		path->ops->on_failed(path);
	}
	path_take_down(path);
}

static void on_stopped(struct controller *c)
{
	look_whether_stopped(c->context);
}

static void on_namespace(struct controller *c)
{
	struct path *path = c->context;

	if (path->phase == PATH_LIVE)
		path->ops->on_namespace(path);
}

static void on_gone(struct controller *c)
{
	struct error error = c->error;

	path_lose(c->context, &error);
}

static void on_ana(struct controller *c)
{
	struct path *path = c->context;

	if (path->phase == PATH_LIVE)
		path->ops->on_ana(path);
}

static const struct controller_ops controller_ops = {
	.on_live = on_live,
	.on_down = on_down,
	.on_stopped = on_stopped,
	.on_namespace = on_namespace,
	.on_gone = on_gone,
	.on_ana = on_ana,
};

const struct connection_ops path_connection_ops = {
	.on_lost = path_lose,
	.on_idle = look_whether_stopped,
};

void path_init(struct path *path, struct volume *volume, unsigned index, const union addr *address,
	       const struct path_ops *ops)
{
	*path = (struct path){
		.volume = volume,
		.ops = ops,
		.index = index,
		.config = volume->config,
		.attempt_timer.on_expiry = on_attempt,
		.idle_call.run = on_all_stopped,
	};
	path->config.address = *address;
	list_init(&path->cqs);
	controller_init(&path->controller, volume->control, volume->cm, &path->config,
			CONTROLLER_KIND_IO, &controller_ops, path);
}

void path_deinit(struct path *path)
{
	check(path->phase == PATH_IDLE && list_is_empty(&path->cqs));
	loop_call_cancel(&path->idle_call);
	loop_call_cancel(&path->gone_call);
}
