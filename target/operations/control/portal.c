/* SPDX-License-Identifier: BSD-3-Clause */
/* drain: ends a portal's connections, or accepts new ones again. Control thread. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/rpc_request.h"
#include "target/association/connection.h"
#include "target/operations/control/list.h"
#include "target/operations/control/portal.h"
#include "target/association/controller.h"
#include "target/operations/change/drain.h"
#include "target/operations/change/last_path.h"

/* A stranded one never ends, and is not waited for. */
static unsigned count_queues(const struct portal *portal)
{
	unsigned n = 0;

	list_for_each (node, &portal->target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);

		n += c->portal == portal && c->state != CONNECTION_STRANDED;
	}
	return n;
}

static bool has_name(const struct portal *portal, const char *name)
{
	return name && portal->target && !strcmp(portal->name, name);
}

/* The portal of that name: the one that listens; else one that was moved or removed and still has
 * connections, or had them when it was drained (rblkctl repeats the call until none is left). */
static struct portal *find_portal(struct target *target, const char *name)
{
	struct portal *left = NULL;

	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		struct portal *portal = &target->portals[i];

		if (!has_name(portal, name))
			continue;
		if (portal_is_used(portal))
			return portal;
		if (portal_is_drained(portal) || count_queues(portal))
			left = portal;
	}
	return left;
}

/* Counts those of all portals of that name, because the connections of an earlier address count. */
static unsigned count_all_queues(const struct target *target, const char *name)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PORTALS_MAX; i++)
		if (has_name(&target->portals[i], name))
			n += count_queues(&target->portals[i]);
	return n;
}

static void drain_all(struct target *target, const char *name)
{
	for (unsigned i = 0; i < PORTALS_MAX; i++) {
		struct portal *portal = &target->portals[i];

		if (has_name(portal, name) && (portal_is_used(portal) || count_queues(portal)))
			portal_drain(portal);
	}
}

struct json_object *control_drain(void *context, struct json_object *params, struct error *error)
{
	struct json_object *value = NULL, *undo = NULL, *cut = NULL, *o;
	struct target *target = context;
	struct path_change change = {.target = target};
	struct portal *portal;
	const char *name;

	json_object_object_get_ex(params, "portal", &value);
	json_object_object_get_ex(params, "undo", &undo);
	name = value ? json_object_get_string(value) : "";
	portal = find_portal(target, name);
	if (!portal)
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list portals",
				  "there is no portal '%s'", name);
	if (!target_is_serving(target))
		return rpc_refuse(error, EXIT_BUSY, "",
				  "rblkd is stopping, and with it portal '%s'", name);
	if (!json_object_get_boolean(undo)) {
		change.drained = name;
		cut = control_list_cut(&change);
		drain_all(target, name);
	} else if (!portal_is_used(portal)) {
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list portals",
				  "portal '%s' is no longer in the configuration", name);
	} else if (portal_undrain(portal) < 0) {
		return rpc_refuse(error, EXIT_FAILED, "the log of rblkd says why",
				  "cannot listen on portal '%s'", name);
	}
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "portal", portal->name);
	control_add_string(o, "state", portal_state_name(atomic_load(&portal->state)));
	control_add_number(o, "queue_pairs", count_all_queues(target, name));
	json_add(o, "hosts_without_path", cut ?: json_object_new_array());
	return o;
}
