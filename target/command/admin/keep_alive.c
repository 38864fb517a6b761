/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each controller has one timer. It expires when the host would be late, and then reads the time of
 * the last command. So an idle association costs one wake-up in each KATO. A discovery controller
 * without KATO is for one look at the log (Base 2.0, 3.1.2.3): it ends after
 * limits.discovery_timeout, with or without commands.
 */
#include "base/bits.h"
#include "base/clock.h"
#include "base/ticks.h"
#include "target/command/admin/keep_alive.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_state.h"

/* 0: never. */
static uint64_t timeout_ns(const struct controller *controller)
{
	uint64_t ms = (controller->kato_ms + KAS_MS - 1) / KAS_MS * (uint64_t)KAS_MS;

	return ms ? (ms + TRAFFIC_NOTE_MS) * NSEC_PER_MSEC : 0;
}

/* The lifetime of an association that is for one look at the log; 0: no limit. */
static uint64_t age_limit_ns(const struct controller *controller)
{
	return controller->is_discovery && !controller->kato_ms
		       ? atomic_load_explicit(&controller->target->discovery_timeout_ns,
					      memory_order_relaxed)
		       : 0;
}

/* The lifetime begins with Connect, not with an enable. */
static uint64_t age_left_ns(const struct controller *controller, uint64_t limit_ns)
{
	uint64_t age_ns = clock_ns() - controller->created_ns;

	return age_ns < limit_ns ? limit_ns - age_ns : 0;
}

static void check_age(struct controller *controller, uint64_t limit_ns)
{
	uint64_t left_ns = age_left_ns(controller, limit_ns);

	if (left_ns)
		loop_timer_start(&controller->poller->loop, &controller->keep_alive, left_ns);
	else
		queue_fail(
			controller->admin_queue,
			"discovery without keep alive for %llu s, which is limits.discovery_timeout",
			(unsigned long long)(limit_ns / NSEC_PER_SEC));
}

static void on_expiry(struct loop_timer *timer)
{
	struct controller *controller = container_of(timer, struct controller, keep_alive);
	uint64_t limit_ns = age_limit_ns(controller);
	uint64_t last = atomic_load_explicit(&controller->last_traffic, memory_order_relaxed);
	uint64_t now = ticks_now();
	uint64_t silent_ns = now > last ? ticks_to_ns_long(now - last) : 0;
	uint64_t ns = timeout_ns(controller);

	if (limit_ns)
		check_age(controller, limit_ns);
	else if (silent_ns < ns)
		loop_timer_start(&controller->poller->loop, timer, ns - silent_ns);
	else
		queue_fail(controller->admin_queue, "nothing heard for %llu s",
			   (unsigned long long)(timeout_ns(controller) / NSEC_PER_SEC));
}

/* ticks_from_ns has an upper limit of minutes. */
static uint64_t long_ticks_from_ns(uint64_t ns)
{
	return ns / NSEC_PER_SEC * ticks_from_ns(NSEC_PER_SEC) + ticks_from_ns(ns % NSEC_PER_SEC);
}

void keep_alive_start(struct controller *controller)
{
	uint64_t limit_ns = age_limit_ns(controller);
	uint64_t ns = timeout_ns(controller);

	loop_timer_stop(&controller->keep_alive);
	controller->keep_alive.on_expiry = on_expiry;
	atomic_store_explicit(&controller->last_traffic, ticks_now(), memory_order_relaxed);
	atomic_store_explicit(&controller->fencing.timeout, limit_ns ? 0 : long_ticks_from_ns(ns),
			      memory_order_relaxed);
	if (limit_ns)
		loop_timer_start(&controller->poller->loop, &controller->keep_alive,
				 age_left_ns(controller, limit_ns));
	else if (ns)
		loop_timer_start(&controller->poller->loop, &controller->keep_alive, ns);
}

void keep_alive_stop(struct controller *controller)
{
	loop_timer_stop(&controller->keep_alive);
}

static enum request_state execute(struct request *r)
{
	/* Its arrival alone has been recorded as traffic. */
	return request_end(r,
			   r->queue->controller->kato_ms ? NVME_OK : NVME_KATO_INVALID | NVME_DNR);
}

const struct nvme_command keep_alive_command = {
	.opcode = NVME_ADMIN_KEEP_ALIVE,
	.name = "Keep Alive",
	.parse = command_parse_nothing,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
};
