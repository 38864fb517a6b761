/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fencing.h. The level is `exact` where this rblkd alone has the store: then it orders all
 * writes of a host, through whatever portals. It is `none` where another rblkd writes to the same
 * store, because neither knows what the other still has.
 */
#include "base/clock.h"
#include "base/json.h"
#include "base/rcu.h"
#include "target/engine/controller.h"
#include "target/operations/control/fencing.h"
#include "target/operations/control/fields.h"

static const char *why_not_exact(const struct target *target, const struct subsystem *subsystem)
{
	if (subsystem_is_shared(subsystem))
		return "another rblkd shares a file of it (shared: true)";
	return target->has_peers ? "controller_ids says that another rblkd exports it, too" : NULL;
}

static struct json_object *list_subsystems(const struct target *target, bool *ret_is_exact)
{
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	struct json_object *list = json_object_new_array();

	*ret_is_exact = true;
	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];
		const char *why = why_not_exact(target, subsystem);
		struct json_object *o = json_object_new_object();

		control_add_string(o, "subsystem", subsystem->nqn);
		control_add_string(o, "level", why ? "none" : "exact");
		control_add_string(o, "why", why ? why : "one process has the stores");
		control_add_number(o, "quiesce_ms", why ? 0 : target->quiesce_ns / NSEC_PER_MSEC);
		json_append(list, o);
		*ret_is_exact = *ret_is_exact && !why;
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
			   is_exact ? "one process has the stores"
				    : "another rblkd has some of the stores, too");
	control_add_number(o, "quiesce_ms", target->quiesce_ns / NSEC_PER_MSEC);
	control_add_number(o, "cross_controller_resets", target->n_cross_resets);
	json_add(o, "subsystems", subsystems);
	json_add(o, "quiescing", list_quiescing(target));
	return o;
}
