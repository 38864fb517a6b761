/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures: each poller has one of its own, and a mark at each of its queues sends responses there.
 * A queue that is made while a capture runs gets its mark in association/connection.c.
 */
#include "base/ticks.h"
#include "target/association/connection.h"
#include "target/operations/control/capture.h"
#include "target/engine/request/response.h"

static void mark_queues(struct capture_service *service)
{
	struct target *target = container_of(service, struct target, captures);

	list_for_each (node, &target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);

		if (c->queue)
			queue_set_answer(c->queue, QUEUE_CAPTURED, service->is_running);
	}
}

void control_captures_init(struct target *target)
{
	capture_service_init(&target->captures, &target->loop, ticks_now);
	target->captures.on_change = mark_queues;
	for (unsigned i = 0; i < target->n_pollers; i++)
		capture_service_add(&target->captures, &target->pollers[i].capture);
}

void control_captures_stop(struct target *target)
{
	capture_service_stop(&target->captures);
}

bool control_is_capturing(const struct target *target)
{
	return target->captures.is_running;
}

struct json_object *control_capture(void *context, struct json_object *params, struct error *error)
{
	struct target *target = context;

	return capture_service_call(&target->captures, params, error);
}
