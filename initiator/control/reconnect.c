/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   OPENING ---> SERVING ---> CLOSING        from any phase
 *      |          |   ^
 *      +------> FAILED+ volume_reopen
 *
 * Happy path: reconnect_open connects the first path, and the others in turn if that fails. The
 * first association makes the volume SERVING; then the other paths connect, too. A path that is
 * lost connects again (path.c), as long as the volume serves. While any path is live the volume is:
 * I/O goes on there. While none is, I/O is held.
 *
 * A target that answers, but refuses us for good (DNR) or has no such namespace, is an obstacle
 * (DENIED, GONE). Mostly it is a mistake in the target's configuration, which its administrator
 * mends: so the path tries again, slowly, and I/O goes on by others, or is held as in any outage. A
 * namespace that goes while a path is live ends the association: before any I/O is sent to what
 * comes in its place, the next association compares its identity. A path to another namespace than
 * the one that was attached is an obstacle, too.
 *
 * The end: for ctrl_loss_tmo no path was live, or all paths lead to a namespace that is not the one
 * that was attached, or all meet an obstacle and fails_on_denial. Then all I/O fails, until
 * volume_reopen.
 *
 * A write that was in flight is sent again, by whichever path, when its association is proven to be
 * over (proof.c). Reads and other writes go on at once.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/probe.h"
#include "base/states.h"
#include "base/units.h"
#include "initiator/control/ana_log.h"
#include "initiator/control/controller.h"
#include "initiator/control/errors.h"
#include "initiator/control/extents.h"
#include "initiator/control/fit.h"
#include "initiator/control/reconnect.h"
#include "initiator/control/connection.h"
#include "initiator/control/memory.h"
#include "initiator/control/path.h"
#include "initiator/control/power.h"
#include "initiator/control/proof.h"
#include "initiator/control/volume_discovery.h"
#include "initiator/control/volume_impl.h"
#include "initiator/control/volume_info.h"
#include "initiator/io/queue.h"
#include "transport/wire/strings.h"

#define OPEN_RETRY_NS	 (200 * NSEC_PER_MSEC)
#define OPEN_PATIENCE_NS (10 * NSEC_PER_SEC)

#define RULE(s, name, next) [s] = {name, (next) | STATE_TO(PHASE_CLOSING)}
static const struct state_rule rules[] = {
	RULE(PHASE_OPENING, "opening", STATE_TO(PHASE_SERVING) | STATE_TO(PHASE_FAILED)),
	RULE(PHASE_SERVING, "serving", STATE_TO(PHASE_FAILED)),
	RULE(PHASE_FAILED, "failed", STATE_TO(PHASE_SERVING)),
	[PHASE_CLOSING] = {"closing", 0},
};

static const struct state_rule outlooks[] = {
	[OUTLOOK_HOLDS] = {"holds I/O", STATE_TO(OUTLOOK_FAILS_FAST) | STATE_TO(OUTLOOK_GIVES_UP)},
	[OUTLOOK_FAILS_FAST] = {"fails I/O", STATE_TO(OUTLOOK_HOLDS) | STATE_TO(OUTLOOK_GIVES_UP)},
	[OUTLOOK_GIVES_UP] = {"gives up", STATE_TO(OUTLOOK_HOLDS)},
};

static void set_outlook(struct volume *volume, enum volume_outlook next)
{
	if (volume->outlook != next)
		states_move("volume's outlook", outlooks, &volume->outlook, next);
}

/* ---- what users see ---- */

/* All paths meet an obstacle: the first one's; else none. */
static enum path_obstacle obstacle_of(const struct volume *volume)
{
	enum path_obstacle first = OBSTACLE_NONE;

	for_each_path(path, volume)
	{
		if (!path->obstacle)
			return OBSTACLE_NONE;
		first = first ?: path->obstacle;
	}
	return first;
}

static enum volume_state state_without_path(const struct volume *volume)
{
	switch (obstacle_of(volume)) {
	case OBSTACLE_DENIED:
		return VOLUME_DENIED;
	case OBSTACLE_GONE:
		return VOLUME_GONE;
	case OBSTACLE_NONE:
	case OBSTACLE_OTHER:
	case OBSTACLE_UNFIT:
		break;
	}
	return VOLUME_RECONNECTING;
}

enum volume_state reconnect_state(const struct volume *volume)
{
	switch (volume->phase) {
	case PHASE_OPENING:
		return VOLUME_CONNECTING;
	case PHASE_SERVING:
		return volume_n_paths_live(volume) ? VOLUME_LIVE : state_without_path(volume);
	case PHASE_FAILED:
		return VOLUME_FAILED;
	case PHASE_CLOSING:
		return VOLUME_CLOSING;
	}
	return VOLUME_FAILED;
}

static void tell_state(struct volume *volume)
{
	enum volume_state now = reconnect_state(volume);

	if (now == volume->told)
		return;
	volume->told = now;
	volume->state_since_ns = clock_ns();
	if (volume->callbacks.on_state)
		volume->callbacks.on_state(volume->context, now);
}

static void tell_path(struct volume *volume)
{
	if (volume->callbacks.on_path)
		volume->callbacks.on_path(volume->context);
}

static void move(struct volume *volume, enum volume_phase next)
{
	states_move("volume", rules, &volume->phase, next);
	tell_state(volume);
}

static void set_all_modes(struct volume *volume, enum queue_mode mode)
{
	list_for_each (node, &volume->queues)
		queue_set_mode(list_entry(node, struct volume_queue, node), mode);
}

/* ---- the end ---- */

static bool are_all_idle(const struct volume *volume)
{
	for_each_path(path, volume) if (path->phase != PATH_IDLE) return false;
	return true;
}

static void take_all_down(struct volume *volume)
{
	for_each_path(path, volume) path_take_down(path);
}

static void stop_timers(struct volume *volume)
{
	loop_timer_stop(&volume->loss_timer);
	loop_timer_stop(&volume->fast_timer);
}

static void become_failed(struct volume *volume)
{
	bool was_opening = volume->phase == PHASE_OPENING;

	stop_timers(volume);
	proof_abandon(volume);
	set_all_modes(volume, QUEUE_FAIL);
	move(volume, PHASE_FAILED);
	if (was_opening)
		loop_defer(volume->control, &volume->report_call);
	else
		log_err(VOLUME_FMT ": given up: %s", VOLUME_ARG(volume),
			volume->last_error.message);
}

/* No further attempt; FAILED when the last path is idle. */
static void give_up(struct volume *volume)
{
	set_outlook(volume, OUTLOOK_GIVES_UP);
	take_all_down(volume);
	if (are_all_idle(volume))
		become_failed(volume);
}

static void start_deadlines(struct volume *volume)
{
	if (volume->config.ctrl_loss_tmo_ns != UINT64_MAX)
		loop_timer_start(volume->control, &volume->loss_timer,
				 volume->config.ctrl_loss_tmo_ns);
	if (volume->config.fast_io_fail_tmo_ns != UINT64_MAX)
		loop_timer_start(volume->control, &volume->fast_timer,
				 volume->config.fast_io_fail_tmo_ns);
}

static void on_loss(struct loop_timer *timer)
{
	give_up(container_of(timer, struct volume, loss_timer));
}

static void on_fast_fail(struct loop_timer *timer)
{
	struct volume *volume = container_of(timer, struct volume, fast_timer);

	log_warn(VOLUME_FMT ": I/O fails until the connection is back", VOLUME_ARG(volume));
	if (volume->outlook == OUTLOOK_HOLDS)
		set_outlook(volume, OUTLOOK_FAILS_FAST);
	proof_abandon(volume);
	set_all_modes(volume, QUEUE_FAIL);
}

static void on_all_over(struct loop_call *call)
{
	struct volume *volume = container_of(call, struct volume, over_call);

	volume->on_over(volume);
}

void reconnect_look_whether_over(struct volume *volume)
{
	if (volume->phase == PHASE_CLOSING && are_all_idle(volume) &&
	    volume_discovery_is_over(&volume->discovery))
		loop_defer(volume->control, &volume->over_call);
}

/* ---- opening ---- */

/* After an attempt: the program that attaches waits for its outcome. */
static bool may_open_again(struct path *path)
{
	struct controller *c = &path->controller;

	return controller_may_ask_again(c) ||
	       (c->cause == CAUSE_TRANSIENT && clock_ns() < path->volume->open_until_ns);
}

static struct path *path_after(const struct volume *volume, const struct path *path)
{
	for (unsigned i = path->index + 1; i < VOLUME_PATHS_MAX; i++)
		if (volume->paths[i])
			return volume->paths[i];
	return NULL;
}

/* The path could not open the volume: again, or the next one. Report the first path's error. */
static void open_otherwise(struct path *path)
{
	struct volume *volume = path->volume;
	struct path *next = path_after(volume, path);

	if (may_open_again(path)) {
		path_wait_for(path, OPEN_RETRY_NS);
		return;
	}
	if (next) {
		log_warn(VOLUME_FMT ": %s; another path is tried", VOLUME_ARG(volume),
			 path->last_error.message);
		path_connect(next);
		return;
	}
	for_each_path(first, volume)
	{
		volume->last_error = first->last_error;
		break;
	}
	become_failed(volume);
}

/* ---- what a path brings ---- */

/* It is the volume's end if no other path may still lead to what was attached. */
static void set_other_namespace(struct path *path, const struct difference *difference)
{
	struct volume *volume = path->volume;

	fit_set_error(path, difference);
	volume->last_error = path->last_error;
	path_set_obstacle(path, OBSTACLE_OTHER);
	path->n_refusals++;
	for_each_path(other, volume) if (other->obstacle != OBSTACLE_OTHER) return;
	set_outlook(volume, OUTLOOK_GIVES_UP);
}

/* The volume serves: a new association may join, or must not. Told once. */
static int join(struct path *path)
{
	struct volume *volume = path->volume;
	const struct difference *difference = fit_find_difference(path)
						      ?: fit_find_other_size(path);
	int r = -ENOTCONN;

	if (difference) {
		set_other_namespace(path, difference);
	} else {
		r = fit_check(path);
		if (r == 0)
			r = memories_register(&volume->memories, path->index,
					      &path->controller.domain, &path->last_error);
		if (r == 0)
			return 0;
		volume->last_error = path->last_error;
		path_set_obstacle(path, OBSTACLE_UNFIT);
		path->n_refusals++;
	}
	if (path->n_refusals == 1 && volume->outlook != OUTLOOK_GIVES_UP)
		log_err(VOLUME_FMT ": %s", VOLUME_ARG(volume), path->last_error.message);
	return r;
}

/* Whether a Flush can go by the path. */
static void set_flushes(struct path *path)
{
	unflushed_set_up(&path->volume->unflushed, path->index,
			 path->phase == PATH_LIVE && volume_rank(path) != LANE_RANK_NONE);
}

/* Logs the path's ANA state, unless all is well. */
static void say_path(const struct path *path)
{
	unsigned state = path->controller.ana_state;
	char by[VOLUME_BY_PATH_MAX];

	if (ana_must_wait(state) || state == NVME_ANA_STATE_PERSISTENT_LOSS)
		log_warn(VOLUME_FMT ": the path%s is %s: I/O %s", VOLUME_ARG(path->volume),
			 volume_by_path(path, by), nvme_ana_state_string(state),
			 volume_n_paths_live(path->volume) > 1 ? "takes others if it can"
			 : ana_must_wait(state)		       ? "waits"
							       : "fails");
}

/* Its lanes are to be used as ANA says. */
void reconnect_set_ranks(struct path *path)
{
	set_flushes(path);
	list_for_each (node, &path->volume->queues) {
		struct volume_queue *queue = list_entry(node, struct volume_queue, node);
		struct lane *lane = queue->lanes[path->index];

		if (lane)
			atomic_store(&lane->wanted_rank, volume_rank(path));
		queue_retry(queue);
	}
}

static int on_association(struct path *path)
{
	struct volume *volume = path->volume;
	int r;

	if (volume->phase != PHASE_OPENING)
		return join(path);
	r = volume_check_windows(path, &path->last_error);
	if (r == 0)
		r = volume_try_memory(volume, path, &path->last_error);
	if (r == 0)
		r = memories_register(&volume->memories, path->index, &path->controller.domain,
				      &path->last_error);
	if (r < 0)
		volume->last_error = path->last_error;
	else
		volume->ids = path->controller.ids;
	return r;
}

static void say_back(const struct path *path)
{
	const struct volume *volume = path->volume;
	char text[UNITS_MAX], by[VOLUME_BY_PATH_MAX];

	if (path->lost_ns)
		log_info(VOLUME_FMT ": reconnected%s after %s", VOLUME_ARG(volume),
			 volume_by_path(path, by),
			 units_format_duration(text, path->live_since_ns - path->lost_ns));
	else
		log_info(VOLUME_FMT ": connected%s, too", VOLUME_ARG(volume),
			 volume_by_path(path, by));
	PROBE(rblk, path_restored, volume, volume->n_reconnects);
}

/* Another path, or one that was lost. */
static void come_back(struct path *path)
{
	struct volume *volume = path->volume;

	stop_timers(volume);
	set_outlook(volume, OUTLOOK_HOLDS);
	volume->n_reconnects += path->lost_ns > 0;
	say_back(path);
	say_path(path);
	tell_state(volume);
	power_compare(path);
	if (volume_learn(volume, path) && volume->callbacks.on_changed)
		volume->callbacks.on_changed(volume->context);
	proof_on_live(path);
	reconnect_set_ranks(path);
	set_all_modes(volume, QUEUE_HOLD);
	tell_path(volume);
}

static void connect_others(struct volume *volume)
{
	for_each_path(path, volume) if (path->phase == PATH_IDLE && path->wish != PATH_WISH_GO)
		path_wait(path);
}

static void on_live(struct path *path)
{
	struct volume *volume = path->volume;

	volume->live_since_ns = path->live_since_ns;
	if (volume->phase != PHASE_OPENING) {
		come_back(path);
		return;
	}
	power_compare(path);
	volume_learn(volume, path);
	say_path(path);
	set_flushes(path);
	move(volume, PHASE_SERVING);
	proof_on_live(path);
	loop_defer(volume->control, &volume->report_call);
	connect_others(volume);
	volume->on_serving(volume);
}

/* A live connection or controller failed: the path goes down, and is built up again. */
static void on_lost(struct path *path)
{
	struct volume *volume = path->volume;
	unsigned n_live = volume_n_paths_live(volume);

	if (path->wish != PATH_WISH_GO)
		volume->last_error = path->last_error;
	if (path->wish == PATH_WISH_GO)
		log_info(VOLUME_FMT ": a path is removed, as told; %u of %u are left",
			 VOLUME_ARG(volume), n_live, volume_n_paths(volume) - 1);
	else if (n_live)
		log_warn(VOLUME_FMT ": %s; %u of %u paths are left", VOLUME_ARG(volume),
			 path->last_error.message, n_live, volume_n_paths(volume));
	else
		log_warn(VOLUME_FMT ": %s; reconnecting", VOLUME_ARG(volume),
			 path->last_error.message);
	PROBE(rblk, path_lost, volume, &path->last_error.message[0]);
	power_on_lost(path);
	set_flushes(path);
	extents_fail(path);
	if (!n_live) {
		volume->lost_ns = clock_ns();
		start_deadlines(volume);
	}
	proof_on_lost(path);
	tell_state(volume);
	tell_path(volume);
}

/* An attempt failed: is there an obstacle now, and which? */
static void note_refusal(struct path *path)
{
	struct volume *volume = path->volume;
	const struct controller *c = &path->controller;
	enum path_obstacle obstacle = c->cause == CAUSE_MISSING	    ? OBSTACLE_GONE
				      : c->cause == CAUSE_PERMANENT ? OBSTACLE_DENIED
								    : OBSTACLE_NONE;
	bool is_new = obstacle != path->obstacle;

	path_set_obstacle(path, obstacle);
	path->n_refusals++;
	tell_state(volume);
	if (obstacle_of(volume) && volume->config.fails_on_denial)
		set_outlook(volume, OUTLOOK_GIVES_UP);
	if (obstacle && is_new && volume->outlook != OUTLOOK_GIVES_UP)
		log_warn(VOLUME_FMT ": %s; it is tried again%s", VOLUME_ARG(volume),
			 c->error.message, volume_n_paths_live(volume) ? "" : ", and I/O waits");
}

static void on_failed(struct path *path)
{
	struct volume *volume = path->volume;

	volume->last_error = path->last_error;
	log_debug(VOLUME_FMT ": attempt %u: %s", VOLUME_ARG(volume), path->n_attempts,
		  path->last_error.message);
	if (volume->phase == PHASE_SERVING)
		note_refusal(path);
}

static void on_idle(struct path *path)
{
	struct volume *volume = path->volume;

	power_on_idle(path);
	proof_on_idle(path);
	if (path->wish == PATH_WISH_GO)
		loop_defer(volume->control, &path->gone_call);
	switch (volume->phase) {
	case PHASE_OPENING:
		open_otherwise(path);
		return;
	case PHASE_SERVING:
		if (volume->outlook == OUTLOOK_GIVES_UP)
			give_up(volume);
		else if (path->wish != PATH_WISH_GO)
			path_wait(path);
		return;
	case PHASE_FAILED:
		return;
	case PHASE_CLOSING:
		reconnect_look_whether_over(volume);
		return;
	}
}

static void on_namespace(struct path *path)
{
	struct volume *volume = path->volume;
	const struct difference *difference = fit_find_difference(path);

	if (difference) {
		struct error error;

		set_other_namespace(path, difference);
		error = path->last_error;
		path_lose(path, &error);
		return;
	}
	if (volume_learn(volume, path) && volume->callbacks.on_changed)
		volume->callbacks.on_changed(volume->context);
}

static void on_ana(struct path *path)
{
	unsigned state = path->controller.ana_state;
	char by[VOLUME_BY_PATH_MAX];

	say_path(path);
	if (state && !ana_must_wait(state) && state != NVME_ANA_STATE_PERSISTENT_LOSS)
		log_info(VOLUME_FMT ": the path%s is %s", VOLUME_ARG(path->volume),
			 volume_by_path(path, by), nvme_ana_state_string(state));
	reconnect_set_ranks(path);
}

const struct path_ops reconnect_path_ops = {
	.on_association = on_association,
	.on_live = on_live,
	.on_lost = on_lost,
	.on_failed = on_failed,
	.on_idle = on_idle,
	.on_namespace = on_namespace,
	.on_ana = on_ana,
};

/* ---- first and last ---- */

static void report_opened(struct loop_call *call)
{
	struct volume *volume = container_of(call, struct volume, report_call);

	volume->callbacks.on_opened(volume->context,
				    volume->phase == PHASE_FAILED ? &volume->last_error : NULL);
}

void reconnect_open(struct volume *volume)
{
	volume->phase = PHASE_OPENING;
	volume->told = VOLUME_CONNECTING;
	volume->state_since_ns = clock_ns();
	volume->open_until_ns = clock_ns() + OPEN_PATIENCE_NS;
	volume->loss_timer.on_expiry = on_loss;
	volume->fast_timer.on_expiry = on_fast_fail;
	volume->over_call.run = on_all_over;
	volume->report_call.run = report_opened;
	proof_begin(volume);
	path_connect(volume->paths[0]);
}

void reconnect_add(struct path *path)
{
	const struct volume *volume = path->volume;

	if (volume->phase == PHASE_SERVING && volume->outlook != OUTLOOK_GIVES_UP)
		path_wait(path);
}

int reconnect_reopen(struct volume *volume)
{
	if (volume->phase != PHASE_FAILED || !volume->live_since_ns)
		return -EINVAL;
	log_info(VOLUME_FMT ": is tried again, as told", VOLUME_ARG(volume));
	set_outlook(volume, OUTLOOK_HOLDS);
	volume->lost_ns = clock_ns();
	for_each_path(path, volume)
	{
		path->n_attempts = 0;
		path->lost_ns = path->lost_ns ? volume->lost_ns : 0;
		path_set_obstacle(path, OBSTACLE_NONE);
	}
	move(volume, PHASE_SERVING);
	set_all_modes(volume, QUEUE_HOLD);
	start_deadlines(volume);
	connect_others(volume);
	return 0;
}

void reconnect_close(struct volume *volume)
{
	stop_timers(volume);
	loop_call_cancel(&volume->report_call);
	proof_end(volume);
	move(volume, PHASE_CLOSING);
	for_each_path(path, volume) path_shut_down(path);
	reconnect_look_whether_over(volume);
}
