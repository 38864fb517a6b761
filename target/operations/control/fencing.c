/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fencing.h. The level is `exact` where no other rblkd can write to the stores: this one orders
 * all writes of a host, through whatever portals, and those of an rblkd before it are over. It is
 * `none` where another may write, too, because neither knows what the other still has. `by` says
 * how that is known:
 *
 *   memory or lock   the stores are memory of this process, or all that reach them obey its lock
 *   machine lock     the kernel keeps other processes of this machine out. That no other machine
 *                    reaches a disk is the administrator's word: no controller_ids, or owner: lock
 *   nothing          another may write
 */
#include <stdio.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rcu.h"
#include "target/engine/record/controller.h"
#include "target/export/ana.h"
#include "target/store/standby.h"
#include "target/operations/control/fencing.h"
#include "target/operations/control/fields.h"

enum {
	WHY_MAX = 128,
};

/* How it is known that no other rblkd writes; the rows of the table above. */
enum ground {
	GROUND_NOTHING,
	GROUND_MACHINE_LOCK,
	GROUND_LOCK,
	GROUNDS,
};

static const struct {
	const char *level, *by, *why;
} meanings[GROUNDS] = {
	[GROUND_NOTHING] = {"none", "nothing", "another rblkd may write to some of the stores"},
	[GROUND_MACHINE_LOCK] = {"exact", "machine lock",
				 "no other process of this machine can write"},
	[GROUND_LOCK] = {"exact", "lock", "only this rblkd can write"},
};

static enum ground ground_of(const struct target *target, const struct subsystem *subsystem)
{
	static const enum ground grounds[] = {
		[OTHERS_ANY] = GROUND_NOTHING,
		[OTHERS_FAR] = GROUND_MACHINE_LOCK,
		[OTHERS_NONE] = GROUND_LOCK,
	};

	/* Another rblkd that exports them cannot write while this one has their locks, and one that
	 * stands by writes nothing. */
	if (target->has_peers && !ana_has_owners(subsystem))
		return GROUND_NOTHING;
	return grounds[subsystem_others(subsystem)];
}

static void explain(const struct target *target, const struct subsystem *subsystem,
		    char why[WHY_MAX])
{
	enum ground ground = ground_of(target, subsystem);

	const struct namespace *least = subsystem_least_locked(subsystem);

	if (ground != GROUND_NOTHING)
		snprintf(why, WHY_MAX, "%s", meanings[ground].why);
	else if (least && backend_stands_by(least->backend))
		snprintf(why, WHY_MAX, "another rblkd may own namespace %u: this one stands by",
			 least->nsid);
	else if (subsystem_others(subsystem) == OTHERS_ANY)
		snprintf(why, WHY_MAX,
			 "another rblkd may write to namespace %u, which is shared or not locked",
			 least->nsid);
	else
		snprintf(why, WHY_MAX, "controller_ids says that another rblkd exports it, too");
}

static void add_ground(struct json_object *o, enum ground ground, const char *why)
{
	control_add_string(o, "level", meanings[ground].level);
	control_add_string(o, "by", meanings[ground].by);
	control_add_string(o, "why", why);
}

static struct json_object *list_subsystems(const struct target *target, enum ground *ret_least)
{
	const struct snapshot *snapshot = rcu_get(&target->snapshot);
	struct json_object *list = json_object_new_array();

	*ret_least = GROUND_LOCK;
	for (unsigned i = 0; i < snapshot->n_subsystems; i++) {
		const struct subsystem *subsystem = &snapshot->subsystems[i];
		struct json_object *o = json_object_new_object();
		enum ground ground = ground_of(target, subsystem);
		char why[WHY_MAX];

		explain(target, subsystem, why);
		control_add_string(o, "subsystem", subsystem->nqn);
		add_ground(o, ground, why);
		control_add_number(o, "quiesce_ms",
				   ground ? target->quiesce_ns / NSEC_PER_MSEC : 0);
		json_append(list, o);
		*ret_least = MIN(*ret_least, ground);
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
	enum ground least;
	struct json_object *subsystems = list_subsystems(target, &least);

	add_ground(o, least, meanings[least].why);
	control_add_number(o, "quiesce_ms", target->quiesce_ns / NSEC_PER_MSEC);
	control_add_number(o, "cross_controller_resets", target->n_cross_resets);
	json_add(o, "subsystems", subsystems);
	json_add(o, "quiescing", list_quiescing(target));
	return o;
}
