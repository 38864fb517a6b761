/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fencing.h. The level is `exact` where this rblkd alone can write to the stores. It has a lock
 * of each, so it orders all writes of a host, through whatever portals, and those of an rblkd
 * before it are over. It is `none` where another rblkd may write, too, because neither knows what
 * the other still has. A lock excludes those of this machine, and that of an image all clients.
 * That no other machine reaches a disk is the administrator's word, by controller_ids.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/rcu.h"
#include "target/engine/controller.h"
#include "target/operations/control/fencing.h"
#include "target/operations/control/fields.h"

enum {
	WHY_MAX = 128,
};

/* Returns whether it is exact. */
static bool explain(const struct target *target, const struct subsystem *subsystem,
		    char why[WHY_MAX])
{
	const struct namespace *open = subsystem_open_namespace(subsystem);

	if (open)
		snprintf(why, WHY_MAX,
			 "another rblkd may write to namespace %u, which is shared or not locked",
			 open->nsid);
	else if (target->has_peers)
		snprintf(why, WHY_MAX, "controller_ids says that another rblkd exports it, too");
	else
		snprintf(why, WHY_MAX, "this rblkd has the lock of each store");
	return !open && !target->has_peers;
}

static struct json_object *list_subsystems(const struct target *target, bool *ret_is_exact)
{
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	struct json_object *list = json_object_new_array();

	*ret_is_exact = true;
	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];
		struct json_object *o = json_object_new_object();
		char why[WHY_MAX];
		bool is_exact = explain(target, subsystem, why);

		control_add_string(o, "subsystem", subsystem->nqn);
		control_add_string(o, "level", is_exact ? "exact" : "none");
		control_add_string(o, "why", why);
		control_add_number(o, "quiesce_ms",
				   is_exact ? target->quiesce_ns / NSEC_PER_MSEC : 0);
		json_append(list, o);
		*ret_is_exact &= is_exact;
	}
	return list;
}

/* Associations that are over, while commands of them are still in a store. */
static struct json_object *list_quiescing(const struct target *target)
{
	struct json_object *list = json_object_new_array();
	uint64_t now = clock_ns();

	list_for_each (node, &target->controllers) {
		const struct controller *controller = list_entry(node, struct controller, node);
		struct json_object *o;

		if (controller_state(controller) != CONTROLLER_DYING)
			continue;
		o = json_object_new_object();
		control_add_string(o, "host", controller->hostnqn);
		control_add_string(o, "subsystem", controller->subnqn);
		control_add_number(o, "controller", controller->id);
		control_add_number(o, "since_ms",
				   (now - controller->fencing.dying_ns) / NSEC_PER_MSEC);
		json_append(list, o);
	}
	return list;
}

struct json_object *control_show_fencing(const struct target *target)
{
	struct json_object *o = json_object_new_object();
	bool is_exact;
	struct json_object *subsystems = list_subsystems(target, &is_exact);

	control_add_string(o, "level", is_exact ? "exact" : "none");
	control_add_string(o, "why",
			   is_exact ? "this rblkd has the lock of each store"
				    : "another rblkd may write to some of the stores");
	control_add_number(o, "quiesce_ms", target->quiesce_ns / NSEC_PER_MSEC);
	control_add_number(o, "cross_controller_resets", target->n_cross_resets);
	json_add(o, "subsystems", subsystems);
	json_add(o, "quiescing", list_quiescing(target));
	return o;
}
