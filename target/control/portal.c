/* SPDX-License-Identifier: BSD-3-Clause */
/* drain: a portal gives up its connections, or takes some again. Control thread. */
#include <stdio.h>
#include <string.h>

#include "target/control/list.h"
#include "target/control/portal.h"
#include "target/controller.h"
#include "target/change/drain.h"

static struct portal *find_portal(struct target *target, const char *name)
{
	for (unsigned i = 0; name && i < PORTALS_MAX; i++)
		if (target->portals[i].is_used && !strcmp(target->portals[i].name, name))
			return &target->portals[i];
	return NULL;
}

static unsigned count_queues(const struct portal *portal)
{
	unsigned n = 0;

	list_for_each (node, &portal->target->queues) {
		n += list_entry(node, struct queue, node)->portal == portal;
	}
	return n;
}

struct json_object *control_drain(void *context, struct json_object *params,
				  struct rpc_error *error)
{
	struct json_object *value = NULL, *undo = NULL, *o;
	struct target *target = context;
	struct portal *portal;
	const char *name;

	json_object_object_get_ex(params, "portal", &value);
	json_object_object_get_ex(params, "undo", &undo);
	name = value ? json_object_get_string(value) : "";
	portal = find_portal(target, name);
	if (!portal)
		return rpc_refuse(error, EXIT_NOT_FOUND, "rblkctl list portals",
				  "there is no portal '%s'", name);
	if (target->is_stopping)
		return rpc_refuse(error, EXIT_BUSY, "",
				  "rblkd is stopping, and with it portal '%s'", name);
	if (!json_object_get_boolean(undo))
		portal_drain(portal);
	else if (portal_undrain(portal) < 0)
		return rpc_refuse(error, EXIT_FAILED, "the log of rblkd says why",
				  "cannot listen on portal '%s'", name);
	o = json_object_new_object();
	control_add_number(o, "schema", CONTROL_SCHEMA);
	control_add_string(o, "portal", portal->name);
	control_add_string(o, "state", portal_state_name(atomic_load(&portal->state)));
	control_add_number(o, "queue_pairs", count_queues(portal));
	return o;
}
