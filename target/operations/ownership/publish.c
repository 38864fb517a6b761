/* SPDX-License-Identifier: BSD-3-Clause */
/* See publish.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rcu.h"
#include "target/association/controller.h"
#include "target/association/cross_reset.h"
#include "target/association/host_id.h"
#include "target/command/admin/notice.h"
#include "target/export/durability.h"
#include "target/export/health/health.h"
#include "target/export/namespace_size.h"
#include "target/export/snapshot_copy.h"
#include "target/operations/change/ana_change.h"
#include "target/operations/change/store_sizes.h"
#include "target/operations/ownership/publish.h"

static bool is_news(const struct namespace *was, const struct namespace *is)
{
	return was != is && (!was || namespace_bytes(was) != namespace_bytes(is) ||
			     atomic_load(&is->guard->flags));
}

/* The store of a namespace and the record of its guard have all that the owner before has done to
 * it. */
static void tell_hosts(struct group *group, const struct snapshot *before)
{
	const struct subsystem *was = snapshot_find(before, group->subnqn);
	const struct subsystem *is = snapshot_find(rcu_get(&group->target->snapshot),
						   group->subnqn);
	const struct ana *after = rcu_get(&is->ana);
	unsigned index = ana_find(after, group->id);

	for (struct namespace_at at = {0}; group_next(group, &at);) {
		const struct namespace *old = subsystem_namespace(was, at.ns->nsid);

		if (is_news(old, at.ns))
			notice_namespace(group->target, group->subnqn, at.ns->nsid);
	}
	ana_tell(group->target, group->subnqn, rcu_get(&was->ana), after, index);
}

/* A registration that an earlier owner has taken may be of another host's identifier. */
static void check_hosts(struct group *group)
{
	list_for_each_safe (node, &group->target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!strcmp(controller->subnqn, group->subnqn) &&
		    controller_state(controller) != CONTROLLER_UNPROVEN)
			host_id_check(controller);
	}
}

static struct snapshot *make(const struct group *group, const struct publication *publication)
{
	const struct snapshot *before = rcu_get(&group->target->snapshot);
	const struct subsystem *subsystem = snapshot_find(before, group->subnqn);
	const struct ana *ana = rcu_get(&subsystem->ana);
	struct snapshot_change change = {
		.subnqn = group->subnqn,
		.namespaces = publication->namespaces,
		.n = publication->n,
		.ana = ana_with_owner(ana, ana_find(ana, group->id), publication->owner),
	};
	struct snapshot *after = change.ana ? snapshot_copy(before, &change) : NULL;

	if (!after)
		free(change.ana);
	return after;
}

int group_publish(struct group *group, const struct publication *publication)
{
	struct target *target = group->target;
	struct snapshot *before = rcu_get(&target->snapshot);
	struct snapshot *after = make(group, publication);

	if (!after)
		return -ENOMEM;
	for (unsigned i = 0; i < publication->n; i++)
		publication->namespaces[i]->n_refs--; /* the maker's */
	snapshot_keep(after);
	rcu_set(&target->snapshot, after);
	rcu_wait();
	durability_log(after, before);
	health_follow(target->runtime.health, after);
	check_hosts(group);
	cross_reset_note_locks(target);
	tell_hosts(group, before);
	retire_snapshot(&target->retire, before);
	store_sizes_follow(target);
	return 0;
}
