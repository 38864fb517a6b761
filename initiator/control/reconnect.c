/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When to connect, and when to give up: the phases of a volume. Control loop only.
 *
 *   OPENING -> LIVE -> RESETTING -> WAITING -> CONNECTING -> LIVE
 *    |  ^        lost     ^  |                   | failed
 *    v  |                 +--|-------------------+
 *   UNDOING -> FAILED <------+ gives up
 *
 * Happy path: reconnect_open starts the controller; on_live makes the volume LIVE and
 * connects its queues. Whatever fails then ends in on_lost: everything is stopped
 * (take_down), and when the last queue pair is gone (on_all_stopped), the next attempt is
 * scheduled: the first at once, then after ever longer delays up to reconnect_delay. I/O
 * is held meanwhile.
 *
 * A target that answers, but refuses us for good (DNR) or has no such namespace, is an obstacle
 * (DENIED, GONE). Mostly it is a mistake in the target's configuration, which its administrator
 * mends: so the volume tries again, slowly, and holds I/O as in any outage. A namespace that goes
 * while the volume is live ends the association: before any I/O is sent to what comes in its
 * place, the next association compares its identity.
 *
 * The end: ctrl_loss_tmo has passed, or what answers is not the namespace that was attached, or
 * there is an obstacle and fails_on_denial. Then all I/O fails, until volume_reopen.
 *
 * A write that was in flight is sent again on a new association, when the old one is proven to be
 * over (proof.c). Reads and other writes go on at once.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/probe.h"
#include "base/states.h"
#include "base/units.h"
#include "initiator/control/errors.h"
#include "initiator/control/extents.h"
#include "initiator/control/volume_impl.h"

#define DELAY_MIN_NS (100 * NSEC_PER_MSEC)
/* A request that went to a target just dying is not waited for as long as the first. */
#define CONNECT_MIN_NS	 (2 * NSEC_PER_SEC)
#define CONNECT_MAX_NS	 (10 * NSEC_PER_SEC)
#define OPEN_RETRY_NS	 (200 * NSEC_PER_MSEC)
#define OPEN_PATIENCE_NS (10 * NSEC_PER_SEC)
/* Between attempts at an obstacle. */
#define OBSTACLE_MIN_NS (1 * NSEC_PER_SEC)
#define OBSTACLE_MAX_NS (5 * NSEC_PER_SEC)
/* An association that lives shorter than this does not earn an attempt at once. */
#define STABLE_NS (2 * NSEC_PER_SEC)

#define RULE(s, name, next) [s] = {name, (next) | STATE_TO(PHASE_CLOSING)}
static const struct state_rule rules[] = {
	RULE(PHASE_OPENING, "opening", STATE_TO(PHASE_LIVE) | STATE_TO(PHASE_UNDOING)),
	RULE(PHASE_UNDOING, "undoing", STATE_TO(PHASE_OPENING) | STATE_TO(PHASE_FAILED)),
	RULE(PHASE_LIVE, "live", STATE_TO(PHASE_RESETTING)),
	RULE(PHASE_RESETTING, "resetting", STATE_TO(PHASE_WAITING) | STATE_TO(PHASE_FAILED)),
	RULE(PHASE_WAITING, "waiting", STATE_TO(PHASE_CONNECTING) | STATE_TO(PHASE_FAILED)),
	RULE(PHASE_CONNECTING, "connecting", STATE_TO(PHASE_LIVE) | STATE_TO(PHASE_RESETTING)),
	RULE(PHASE_FAILED, "failed", STATE_TO(PHASE_WAITING)),
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

enum volume_state reconnect_state(const struct volume *volume)
{
	switch ((enum volume_phase)volume->phase) {
	case PHASE_OPENING:
	case PHASE_UNDOING:
		return VOLUME_CONNECTING;
	case PHASE_LIVE:
		return VOLUME_LIVE;
	case PHASE_RESETTING:
	case PHASE_WAITING:
	case PHASE_CONNECTING:
		return volume->obstacle == OBSTACLE_DENIED ? VOLUME_DENIED
		       : volume->obstacle == OBSTACLE_GONE ? VOLUME_GONE
							   : VOLUME_RECONNECTING;
	case PHASE_FAILED:
		return VOLUME_FAILED;
	case PHASE_CLOSING:
		return VOLUME_CLOSING;
	}
	return VOLUME_FAILED;
}

static void tell_state(struct volume *volume, enum volume_state before)
{
	enum volume_state now = reconnect_state(volume);

	if (now == before)
		return;
	volume->phase_since_ns = clock_ns();
	if (volume->callbacks.on_state)
		volume->callbacks.on_state(volume->context, now);
}

static void move(struct volume *volume, enum volume_phase next)
{
	enum volume_state before = reconnect_state(volume);

	states_move("volume", rules, &volume->phase, next);
	if (next != PHASE_LIVE)
		extents_fail(volume);
	tell_state(volume, before);
}

static void set_obstacle(struct volume *volume, enum volume_obstacle obstacle)
{
	enum volume_state before = reconnect_state(volume);

	if (obstacle == volume->obstacle)
		return;
	volume->obstacle = obstacle;
	volume->n_refusals = 0;
	tell_state(volume, before);
}

static void set_all_modes(struct volume *volume, enum queue_mode mode)
{
	list_for_each (node, &volume->queues)
		queue_set_mode(list_entry(node, struct volume_queue, node), mode);
}

/* ---- down ---- */

static bool is_all_stopped(const struct volume *volume)
{
	if (volume->controller.state != CTRL_IDLE)
		return false;
	list_for_each (node, &volume->queues)
		if (list_entry(node, struct volume_queue, node)->link->state != LINK_IDLE)
			return false;
	return true;
}

/* Controller and links are being stopped. */
static bool is_going_down(const struct volume *volume)
{
	return volume->phase == PHASE_UNDOING || volume->phase == PHASE_RESETTING ||
	       volume->phase == PHASE_CLOSING;
}

static void look_whether_stopped(struct volume *volume)
{
	if (is_going_down(volume) && is_all_stopped(volume))
		loop_defer(volume->control, &volume->stopped_call);
}

void reconnect_on_queue_gone(struct volume *volume)
{
	look_whether_stopped(volume);
}

static void take_down(struct volume *volume)
{
	if (!is_going_down(volume))
		move(volume, volume->phase == PHASE_OPENING ? PHASE_UNDOING : PHASE_RESETTING);
	list_for_each (node, &volume->queues)
		link_stop(list_entry(node, struct volume_queue, node));
	if (volume->controller.state != CTRL_IDLE)
		controller_stop(&volume->controller);
	look_whether_stopped(volume);
}

static void stop_timers(struct volume *volume)
{
	loop_timer_stop(&volume->attempt_timer);
	loop_timer_stop(&volume->loss_timer);
	loop_timer_stop(&volume->fast_timer);
}

static void become_failed(struct volume *volume)
{
	bool was_opening = volume->phase == PHASE_UNDOING;

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

static void start_deadlines(struct volume *volume)
{
	if (volume->config.ctrl_loss_tmo_ns != UINT64_MAX)
		loop_timer_start(volume->control, &volume->loss_timer,
				 volume->config.ctrl_loss_tmo_ns);
	if (volume->config.fast_io_fail_tmo_ns != UINT64_MAX)
		loop_timer_start(volume->control, &volume->fast_timer,
				 volume->config.fast_io_fail_tmo_ns);
}

/* A live link or controller failed: everything goes down, and is built up again. */
static void on_lost(struct volume *volume, const struct error *error)
{
	if (volume->phase != PHASE_LIVE)
		return;
	volume->last_error = *error;
	volume->lost_ns = clock_ns();
	volume->n_attempts = volume->lost_ns - volume->live_since_ns < STABLE_NS
				     ? volume->n_attempts
				     : 0;
	log_warn(VOLUME_FMT ": %s; reconnecting", VOLUME_ARG(volume), error->message);
	PROBE(rblk, path_lost, volume, &error->message[0]);
	start_deadlines(volume);
	proof_on_lost(volume);
	take_down(volume);
}

/* ---- the next attempt ---- */

/* At once, 100 ms, 200 ms, ... up to reconnect_delay. At an obstacle 1 s, 2 s, ... */
static uint64_t delay_ns(const struct volume *volume)
{
	uint64_t delay;

	if (volume->obstacle)
		return MIN(OBSTACLE_MIN_NS << MIN(volume->n_refusals - 1, 8u),
			   MAX(OBSTACLE_MAX_NS, volume->config.reconnect_delay_ns));
	if (!volume->n_attempts)
		return 0;
	delay = DELAY_MIN_NS << MIN(volume->n_attempts - 1, 16u);
	return MIN(delay, volume->config.reconnect_delay_ns);
}

static void wait_for_attempt(struct volume *volume)
{
	move(volume, PHASE_WAITING);
	loop_timer_start(volume->control, &volume->attempt_timer, delay_ns(volume));
	volume->n_attempts++;
}

static void on_attempt(struct loop_timer *timer)
{
	struct volume *volume = container_of(timer, struct volume, attempt_timer);

	if (volume->phase != PHASE_OPENING) {
		volume->controller.connect_timeout_ns = MIN(
			CONNECT_MIN_NS << MIN(volume->n_attempts, 3u), CONNECT_MAX_NS);
		move(volume, PHASE_CONNECTING);
	}
	controller_start(&volume->controller);
}

/* After the first attempt: the program that attaches waits for its outcome. */
static bool may_open_again(struct volume *volume)
{
	struct controller *c = &volume->controller;

	return controller_may_ask_again(c) ||
	       (c->cause == CAUSE_TRANSIENT && clock_ns() < volume->open_until_ns);
}

static void open_again(struct volume *volume)
{
	move(volume, PHASE_OPENING);
	loop_timer_start(volume->control, &volume->attempt_timer, OPEN_RETRY_NS);
}

/* The last queue pair of the association is gone. */
static void on_all_stopped(struct loop_call *call)
{
	struct volume *volume = container_of(call, struct volume, stopped_call);

	if (!is_going_down(volume) || !is_all_stopped(volume))
		return;
	memories_deregister(&volume->memories);
	controller_close_domain(&volume->controller);
	check(list_is_empty(&volume->cqs)); /* each went with its last queue pair */
	switch ((enum volume_phase)volume->phase) {
	case PHASE_CLOSING:
		volume->on_over(volume);
		return;
	case PHASE_UNDOING:
		if (may_open_again(volume))
			open_again(volume);
		else
			become_failed(volume);
		return;
	case PHASE_RESETTING:
		if (volume->outlook == OUTLOOK_GIVES_UP)
			become_failed(volume);
		else
			wait_for_attempt(volume);
		return;
	case PHASE_OPENING:
	case PHASE_CONNECTING:
	case PHASE_LIVE:
	case PHASE_WAITING:
	case PHASE_FAILED:
		return;
	}
}

static void on_loss(struct loop_timer *timer)
{
	struct volume *volume = container_of(timer, struct volume, loss_timer);

	set_outlook(volume, OUTLOOK_GIVES_UP);
	if (volume->phase == PHASE_WAITING)
		become_failed(volume);
	else if (!is_going_down(volume))
		take_down(volume);
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

/* ---- the controller's news ---- */

/* NULL, or what has become of the namespace that makes it another one. */
static const char *find_difference(const struct volume *volume)
{
	const struct controller *c = &volume->controller;

	if (!identify_ids_match(&volume->ids, &c->ids))
		return "its identifier has changed; ram has a new one whenever it begins empty";
	if (identify_ids_are_empty(&volume->ids) && strcmp(volume->info.serial, c->id.serial) != 0)
		return "the controller's serial number has changed";
	if (volume->info.block_size != 1u << c->ns.block_shift)
		return "its block size has changed";
	return NULL;
}

static void set_other_namespace(struct volume *volume, const char *difference)
{
	error_set(&volume->last_error, EXIT_FAILED,
		  "detach it, and attach it again if it is the right one",
		  "the contents of namespace %u of '%.80s' are not those that were attached: %s",
		  volume->config.nsid, volume->config.subnqn, difference);
	set_outlook(volume, OUTLOOK_GIVES_UP);
}

static bool may_come_back(struct volume *volume)
{
	const struct controller *c = &volume->controller;
	const char *difference = find_difference(volume);
	unsigned n_needed = volume_n_queues(volume);

	if (!difference && c->ns.n_blocks << c->ns.block_shift < volume->info.size_bytes)
		difference = "it has become smaller";
	if (difference) {
		set_other_namespace(volume, difference);
		return false;
	}
	if (c->n_queues_granted < n_needed) {
		error_set(&volume->last_error, EXIT_FAILED, NULL,
			  "target grants %u I/O queues, and %u are in use", c->n_queues_granted,
			  n_needed);
		return false;
	}
	return true;
}

/* What ANA says of the path, where it is not that all is well. */
static void say_path(const struct volume *volume)
{
	unsigned state = volume->controller.ana_state;

	if (ana_must_wait(state) || state == NVME_ANA_STATE_PERSISTENT_LOSS)
		log_warn(VOLUME_FMT ": the path is %s: I/O %s", VOLUME_ARG(volume),
			 nvme_ana_state_string(state), ana_must_wait(state) ? "waits" : "fails");
}

static void come_back(struct volume *volume)
{
	char text[UNITS_MAX];

	if (!may_come_back(volume) ||
	    memories_register(&volume->memories, &volume->controller.domain, &volume->last_error) <
		    0) {
		take_down(volume);
		return;
	}
	stop_timers(volume);
	set_obstacle(volume, OBSTACLE_NONE);
	volume->n_reconnects++;
	volume->live_since_ns = clock_ns();
	set_outlook(volume, OUTLOOK_HOLDS);
	log_info(VOLUME_FMT ": reconnected after %s", VOLUME_ARG(volume),
		 units_format_duration(text, volume->live_since_ns - volume->lost_ns));
	PROBE(rblk, path_restored, volume, volume->n_reconnects);
	say_path(volume);
	move(volume, PHASE_LIVE);
	power_compare(volume);
	if (volume_learn(volume) && volume->callbacks.on_changed)
		volume->callbacks.on_changed(volume->context);
	proof_on_live(volume);
	set_all_modes(volume, QUEUE_HOLD);
	list_for_each (node, &volume->queues)
		link_start(list_entry(node, struct volume_queue, node));
}

static void on_live(struct controller *c)
{
	struct volume *volume = c->context;

	if (volume->phase == PHASE_CONNECTING) {
		come_back(volume);
		return;
	}
	if (volume->phase != PHASE_OPENING)
		return;
	if (volume_check_windows(volume, &volume->last_error) < 0 ||
	    volume_try_memory(volume, &volume->last_error) < 0 ||
	    memories_register(&volume->memories, &volume->controller.domain, &volume->last_error) <
		    0) {
		take_down(volume);
		return;
	}
	volume->ids = c->ids;
	power_compare(volume);
	volume_learn(volume);
	volume->live_since_ns = clock_ns();
	say_path(volume);
	move(volume, PHASE_LIVE);
	proof_on_live(volume);
	loop_defer(volume->control, &volume->report_call);
}

/* An attempt failed: is there an obstacle now, and which? */
static void note_refusal(struct volume *volume)
{
	const struct controller *c = &volume->controller;
	enum volume_obstacle obstacle = c->cause == CAUSE_MISSING     ? OBSTACLE_GONE
					: c->cause == CAUSE_PERMANENT ? OBSTACLE_DENIED
								      : OBSTACLE_NONE;
	bool is_new = obstacle != volume->obstacle;

	if (obstacle && volume->config.fails_on_denial)
		set_outlook(volume, OUTLOOK_GIVES_UP);
	set_obstacle(volume, obstacle);
	volume->n_refusals++;
	if (obstacle && is_new && volume->outlook != OUTLOOK_GIVES_UP)
		log_warn(VOLUME_FMT ": %s; it is tried again, and I/O waits", VOLUME_ARG(volume),
			 c->error.message);
}

static void on_down(struct controller *c)
{
	struct volume *volume = c->context;

	if (volume->phase == PHASE_LIVE) {
		on_lost(volume, &c->error);
		return;
	}
	if (volume->phase == PHASE_CONNECTING || volume->phase == PHASE_OPENING) {
		volume->last_error = c->error;
		log_debug(VOLUME_FMT ": attempt %u: %s", VOLUME_ARG(volume), volume->n_attempts,
			  c->error.message);
		if (volume->phase == PHASE_CONNECTING)
			note_refusal(volume);
	}
	if (is_going_down(volume))
		controller_stop(c);
	else
		take_down(volume);
}

static void on_stopped(struct controller *c)
{
	look_whether_stopped(c->context);
}

static void on_namespace(struct controller *c)
{
	struct volume *volume = c->context;
	const char *difference = find_difference(volume);

	if (volume->phase != PHASE_LIVE)
		return;
	if (difference) {
		struct error error;

		set_other_namespace(volume, difference);
		error = volume->last_error;
		on_lost(volume, &error);
		return;
	}
	if (volume_learn(volume) && volume->callbacks.on_changed)
		volume->callbacks.on_changed(volume->context);
}

static void on_gone(struct controller *c)
{
	struct volume *volume = c->context;
	struct error error = c->error;

	if (volume->phase == PHASE_LIVE)
		on_lost(volume, &error);
}

static void on_ana(struct controller *c)
{
	struct volume *volume = c->context;

	if (volume->phase != PHASE_LIVE)
		return;
	say_path(volume);
	if (ana_must_wait(c->ana_state))
		return;
	if (c->ana_state && c->ana_state != NVME_ANA_STATE_PERSISTENT_LOSS)
		log_info(VOLUME_FMT ": the path is %s", VOLUME_ARG(volume),
			 nvme_ana_state_string(c->ana_state));
	list_for_each (node, &volume->queues)
		queue_retry(list_entry(node, struct volume_queue, node));
}

const struct controller_ops reconnect_controller_ops = {
	.on_live = on_live,
	.on_down = on_down,
	.on_stopped = on_stopped,
	.on_namespace = on_namespace,
	.on_gone = on_gone,
	.on_ana = on_ana,
};

const struct link_ops reconnect_link_ops = {
	.on_lost = on_lost,
	.on_idle = look_whether_stopped,
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
	volume->phase_since_ns = clock_ns();
	volume->open_until_ns = clock_ns() + OPEN_PATIENCE_NS;
	volume->attempt_timer.on_expiry = on_attempt;
	volume->loss_timer.on_expiry = on_loss;
	volume->fast_timer.on_expiry = on_fast_fail;
	volume->stopped_call.run = on_all_stopped;
	volume->report_call.run = report_opened;
	proof_begin(volume);
	controller_start(&volume->controller);
}

int reconnect_reopen(struct volume *volume)
{
	if (volume->phase != PHASE_FAILED || !volume->live_since_ns)
		return -EINVAL;
	log_info(VOLUME_FMT ": is tried again, as told", VOLUME_ARG(volume));
	set_outlook(volume, OUTLOOK_HOLDS);
	volume->lost_ns = clock_ns();
	volume->n_attempts = 0;
	set_obstacle(volume, OBSTACLE_NONE);
	set_all_modes(volume, QUEUE_HOLD);
	start_deadlines(volume);
	wait_for_attempt(volume);
	return 0;
}

void reconnect_close(struct volume *volume)
{
	bool is_live = volume->phase == PHASE_LIVE;

	stop_timers(volume);
	loop_call_cancel(&volume->report_call);
	proof_end(volume);
	move(volume, PHASE_CLOSING);
	if (!is_live) {
		take_down(volume);
		return;
	}
	controller_shut_down(&volume->controller);
}
