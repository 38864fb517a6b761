/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The phases of a persistent discovery controller. Control loop only.
 *
 *   IDLE -> WAITING -> CONNECTING -> LIVE
 *    ^                  | failed      | lost, or its log cannot be used
 *    |                  v             v
 *    +----------------- RESETTING <---+             any -> ENDING
 *
 * LIVE: the log is read (discovery_read.c); after each event (async_event.c) it is read again. Its
 * last contents stay known while the service is away.
 *
 * Failures: whatever it is, the association is taken apart, and the next attempt follows as that of
 * a path does (attempt.h): at once, then after ever longer delays up to the volume's
 * reconnect_delay. A service that refuses us for good, or whose log cannot be used, is asked
 * slowly. A service that sends events without end has its log read once a second.
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/states.h"
#include "initiator/control/attempt.h"
#include "initiator/control/discovery_service.h"
#include "initiator/control/controller.h"
#include "initiator/control/discovery_read.h"

#define ENDS		    STATE_TO(DISCOVERY_ENDING)
#define TO(s)		    STATE_TO(DISCOVERY_##s)
#define RULE(s, name, next) [DISCOVERY_##s] = {name, (next) | ENDS}
static const struct state_rule rules[] = {
	RULE(IDLE, "idle", TO(WAITING)),
	RULE(WAITING, "waiting", TO(CONNECTING)),
	RULE(CONNECTING, "connecting", TO(LIVE) | TO(RESETTING)),
	RULE(LIVE, "live", TO(RESETTING)),
	RULE(RESETTING, "resetting", TO(IDLE)),
	[DISCOVERY_ENDING] = {"ending", 0},
};
#undef TO

static void move(struct discovery_service *s, enum discovery_phase next)
{
	states_move("discovery service", rules, &s->phase, next);
	s->phase_since_ns = clock_ns();
}

/* ---- the log ---- */

static bool is_among(const union addr *addresses, unsigned n, const union addr *address)
{
	for (unsigned i = 0; i < n; i++)
		if (addr_is_equal(&addresses[i], address))
			return true;
	return false;
}

static void put(struct discovery_service *s, union addr *addresses, unsigned *n, unsigned max,
		const union addr *address)
{
	if (is_among(addresses, *n, address))
		return;
	if (*n == max)
		s->n_left_out++;
	else
		addresses[(*n)++] = *address;
}

static void take_record(struct discovery_service *s, const struct discover_record *record)
{
	union addr address;

	if (discovery_portal(record, s->config.subnqn, &address))
		put(s, s->portals, &s->n_portals, DISCOVERY_PORTALS_MAX, &address);
	else if (discovery_referral(record, &address) &&
		 !addr_is_equal(&address, &s->config.address))
		put(s, s->referrals, &s->n_referrals, DISCOVERY_REFERRALS_MAX, &address);
}

static void take_log(struct discovery_service *s, const struct discover_result *result)
{
	if (!s->has_log || s->genctr != result->genctr)
		s->changed_ns = clock_ns();
	s->has_log = true;
	s->genctr = result->genctr;
	s->n_portals = s->n_referrals = s->n_left_out = 0;
	for (unsigned i = 0; i < result->n_records; i++)
		take_record(s, &result->records[i]);
}

static void on_read(struct controller *c);

static void read_log(struct discovery_service *s)
{
	s->reading = READING_LOG;
	discovery_read(&s->controller, on_read);
}

static void on_read(struct controller *c)
{
	struct discovery_service *s = c->context;
	bool is_old = s->reading == READING_OLD_LOG;

	s->reading = READING_NOTHING;
	s->n_refusals = 0;
	s->n_logs++;
	take_log(s, &c->discovery_read.result);
	discover_result_release(&c->discovery_read.result);
	if (is_old)
		read_log(s);
	s->ops->on_log(s);
}

static void on_discovery(struct controller *c)
{
	struct discovery_service *s = c->context;

	if (s->phase != DISCOVERY_LIVE)
		return;
	if (s->reading == READING_NOTHING)
		read_log(s);
	else
		s->reading = READING_OLD_LOG;
}

bool discovery_service_lists(const struct discovery_service *s, const union addr *portal)
{
	return s->has_log && is_among(s->portals, s->n_portals, portal);
}

/* ---- the association ---- */

static void on_live(struct controller *c)
{
	struct discovery_service *s = c->context;

	if (s->phase != DISCOVERY_CONNECTING)
		return;
	move(s, DISCOVERY_LIVE);
	s->live_since_ns = clock_ns();
	s->n_logs = 0;
	read_log(s);
}

/* An association that was of use for long enough earns an attempt at once, but not again and again
 * one that asks for it: it may be hostile. */
static void note_end(struct discovery_service *s)
{
	const struct controller *c = &s->controller;
	bool is_stable = s->phase == DISCOVERY_LIVE &&
			 clock_ns() - s->live_since_ns >= ATTEMPT_STABLE_NS;

	if (c->cause == CAUSE_PERMANENT || c->cause == CAUSE_UNUSABLE)
		s->n_refusals++;
	else
		s->n_refusals = 0;
	if (is_stable)
		s->n_attempts = 0;
	else if (c->cause == CAUSE_ASKED)
		s->n_attempts = MIN(s->n_attempts, 1u);
}

static void on_down(struct controller *c)
{
	struct discovery_service *s = c->context;

	if (s->phase == DISCOVERY_ENDING)
		return;
	note_end(s);
	s->last_error = c->error;
	s->reading = READING_NOTHING;
	s->ops->on_down(s);
	move(s, DISCOVERY_RESETTING);
	controller_stop(c);
}

static void on_stopped(struct controller *c)
{
	struct discovery_service *s = c->context;

	controller_close_domain(c);
	discover_result_release(&c->discovery_read.result);
	if (s->phase == DISCOVERY_ENDING) {
		loop_defer(s->loop, &s->ended_call);
		return;
	}
	move(s, DISCOVERY_IDLE);
	s->ops->on_idle(s);
}

static const struct controller_ops controller_ops = {
	.on_live = on_live,
	.on_down = on_down,
	.on_stopped = on_stopped,
	.on_discovery = on_discovery,
};

/* ---- attempts ---- */

static void on_attempt(struct loop_timer *timer)
{
	struct discovery_service *s = container_of(timer, struct discovery_service, attempt_timer);

	move(s, DISCOVERY_CONNECTING);
	controller_start(&s->controller);
}

void discovery_service_wait(struct discovery_service *s)
{
	uint64_t max_ns = s->config.reconnect_delay_ns;

	move(s, DISCOVERY_WAITING);
	loop_timer_start(s->loop, &s->attempt_timer,
			 s->n_refusals ? attempt_obstacle_delay_ns(s->n_refusals, max_ns)
				       : attempt_delay_ns(s->n_attempts, max_ns));
	s->n_attempts++;
	s->controller.connect_timeout_ns = attempt_timeout_ns(s->n_attempts);
}

void discovery_service_move_to(struct discovery_service *s, const union addr *address)
{
	check(s->phase == DISCOVERY_IDLE);
	s->config.address = *address;
	s->has_log = false;
	s->n_portals = s->n_referrals = s->n_left_out = 0;
}

/* ---- first and last ---- */

static void report_ended(struct loop_call *call)
{
	struct discovery_service *s = container_of(call, struct discovery_service, ended_call);

	s->ops->on_ended(s);
}

void discovery_service_end(struct discovery_service *s)
{
	if (s->phase == DISCOVERY_ENDING)
		return;
	loop_timer_stop(&s->attempt_timer);
	move(s, DISCOVERY_ENDING);
	if (s->controller.state == CTRL_IDLE)
		loop_defer(s->loop, &s->ended_call);
	else
		controller_stop(&s->controller);
}

void discovery_service_init(struct discovery_service *s, struct volume *volume, struct loop *loop,
			    struct cm *cm, const struct volume_config *config,
			    const union addr *address, const struct discovery_service_ops *ops)
{
	*s = (struct discovery_service){
		.volume = volume,
		.loop = loop,
		.ops = ops,
		.config = *config,
		.phase_since_ns = clock_ns(),
		.attempt_timer.on_expiry = on_attempt,
		.ended_call.run = report_ended,
	};
	s->config.address = *address;
	controller_init(&s->controller, loop, cm, &s->config, CONTROLLER_KIND_PERSISTENT_DISCOVERY,
			&controller_ops, s);
}
