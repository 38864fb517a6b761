/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path that is added connects by itself. One that is removed, here or by discovery, leaves first:
 * new I/O takes others.
 * It is gone when nothing is in flight on it and a Flush has covered what it acknowledged, which
 * this file sends. `rblk path` asks for the status until the path is not in it any more.
 *
 *   NONE <-> WAITING <-> FLUSHING      the end of the process waits for FLUSHING
 */
#include <errno.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/states.h"
#include "nbd_bridge/control/bridge_internal.h"
#include "nbd_bridge/control/bridge_path.h"
#include "nbd_bridge/control/bridge_stop.h"

/* Between two looks; after a Flush that failed. */
#define LOOK_NS	 (10 * NSEC_PER_MSEC)
#define RETRY_NS (1 * NSEC_PER_SEC)

static const struct state_rule rules[] = {
	[BRIDGE_DEPARTURE_NONE] = {"none", STATE_TO(BRIDGE_DEPARTURE_WAITING)},
	[BRIDGE_DEPARTURE_WAITING] = {"waiting", STATE_TO(BRIDGE_DEPARTURE_FLUSHING) |
							 STATE_TO(BRIDGE_DEPARTURE_NONE)},
	[BRIDGE_DEPARTURE_FLUSHING] = {"flushing", STATE_TO(BRIDGE_DEPARTURE_WAITING)},
};

static void move(struct bridge *bridge, enum bridge_departure_state next)
{
	states_move("departure", rules, &bridge->departure.state, next);
}

static void look(struct bridge *bridge);

static void on_look(struct loop_timer *timer)
{
	look(container_of(timer, struct bridge, departure.look));
}

static void look_after(struct bridge *bridge, uint64_t ns)
{
	loop_timer_start(&bridge->loop, &bridge->departure.look, ns);
}

static void on_flushed(struct worker *worker, int error)
{
	struct bridge *bridge = worker->owner;

	move(bridge, BRIDGE_DEPARTURE_WAITING);
	if (bridge->state == BRIDGE_SERVING) {
		look_after(bridge, error ? RETRY_NS : 0);
		return;
	}
	move(bridge, BRIDGE_DEPARTURE_NONE);
	bridge_stop_goes_on(bridge);
}

static void begin(struct bridge *bridge, const union addr *address)
{
	bridge->departure.address = *address;
	bridge->departure.look.on_expiry = on_look;
	move(bridge, BRIDGE_DEPARTURE_WAITING);
	look(bridge);
}

void bridge_path_look(struct bridge *bridge)
{
	union addr address;

	if (bridge->state == BRIDGE_SERVING && bridge->departure.state == BRIDGE_DEPARTURE_NONE &&
	    volume_path_leaving(bridge->volume, &address))
		begin(bridge, &address);
}

static void look(struct bridge *bridge)
{
	struct list *workers = &bridge->pool.workers;

	switch (volume_path_go(bridge->volume, &bridge->departure.address)) {
	case DEPARTURE_DONE:
		move(bridge, BRIDGE_DEPARTURE_NONE);
		bridge_path_look(bridge); /* another one may leave */
		return;
	case DEPARTURE_WANTS_FLUSH:
		move(bridge, BRIDGE_DEPARTURE_FLUSHING);
		worker_flush_volume(list_entry(workers->next, struct worker, node), on_flushed);
		return;
	case DEPARTURE_WAITS:
	case DEPARTURE_UNDER_WAY:
		look_after(bridge, LOOK_NS);
		return;
	}
}

void bridge_path_stop(struct bridge *bridge)
{
	loop_timer_stop(&bridge->departure.look);
	if (bridge->departure.state == BRIDGE_DEPARTURE_WAITING)
		move(bridge, BRIDGE_DEPARTURE_NONE);
}

/* 0, or -EINVAL with *error. */
static int parse(struct json_object *params, union addr *ret_address, struct error *error)
{
	struct json_object *value = NULL;
	const char *text;

	if (params)
		json_object_object_get_ex(params, "address", &value);
	text = value ? json_object_get_string(value) : "";
	if (addr_parse_numeric(text, 0, ret_address) == 0) /* a name would block the loop */
		return 0;
	error_set(error, EXIT_USAGE, NULL, "no address of a path");
	return -EINVAL;
}

static int check_serving(const struct bridge *bridge, struct error *error)
{
	if (bridge->state == BRIDGE_SERVING)
		return 0;
	error_set(error, EXIT_BUSY, NULL, "%s is being attached or detached", bridge->config->name);
	return -EBUSY;
}

int bridge_path_add(struct bridge *bridge, struct json_object *params, struct error *error)
{
	union addr address;
	int r = parse(params, &address, error);

	if (r == 0)
		r = check_serving(bridge, error);
	return r < 0 ? r : volume_path_add(bridge->volume, &address, error);
}

/* "dead": true. */
static bool is_vouched(struct json_object *params)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(params, "dead", &value);
	return json_object_get_boolean(value);
}

int bridge_path_remove(struct bridge *bridge, struct json_object *params, struct error *error)
{
	struct bridge_departure *departure = &bridge->departure;
	union addr address;
	int r = parse(params, &address, error);

	if (r == 0)
		r = check_serving(bridge, error);
	if (r < 0)
		return r;
	if (departure->state != BRIDGE_DEPARTURE_NONE) {
		if (addr_is_equal(&departure->address, &address))
			return 0; /* asked again */
		error_set(error, EXIT_BUSY, "wait until it is gone", "another path is leaving");
		return -EBUSY;
	}
	r = volume_path_leave(bridge->volume, &address, is_vouched(params), error);
	if (r == 0)
		begin(bridge, &address);
	return r;
}
