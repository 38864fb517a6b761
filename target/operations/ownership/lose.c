/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See lose.h. Hosts must get no answer that the next owner does not know of: neither from memory,
 * nor the error of a command that the cluster has refused. So the order is
 *
 *   associations are over --> what was held back ends --> other objects take the namespaces' places
 *
 * A poller hears of the end of a queue by a message, and of the end of a held command by a later
 * one, which then finds that queue ended. The commands of before keep their stores until they end,
 * and stores that are lost are never used again: the group has new ones, by another connection.
 */
#include <errno.h>
#include <stdatomic.h>

#include "target/association/controller.h"
#include "target/export/ana.h"
#include "target/operations/ownership/give.h"
#include "target/operations/ownership/lose.h"
#include "target/operations/ownership/take.h"

static const char *why_lost(const struct backend *backend)
{
	return atomic_load(&backend->lost_why);
}

/* NULL: nothing is lost. */
static const char *find_loss(const struct group *group)
{
	const char *why = NULL;

	for (struct namespace_at at = {0}; !why && group_next(group, &at);)
		why = why_lost(at.ns->backend);
	for (unsigned i = 0; !why && i < group->n_stores; i++)
		why = why_lost(group->stores[i].backend);
	return why;
}

static void end_associations(struct target *target, const char *subnqn)
{
	list_for_each_safe (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!strcmp(controller->subnqn, subnqn))
			controller_kill(controller, "another rblkd may be the owner of its stores");
	}
}

static void let_go(const struct group *group)
{
	for (struct namespace_at at = {0}; group_next(group, &at);)
		if (why_lost(at.ns->backend))
			at.ns->backend->ops->let_go(at.ns->backend);
}

void group_lose_all(struct target *target)
{
	const struct snapshot *snapshot = atomic_load(&target->snapshot);

	for (struct namespace_at at = {0}; snapshot && snapshot_next(snapshot, &at);) {
		if (!why_lost(at.ns->backend))
			continue;
		end_associations(target, at.subsystem->nqn);
		at.ns->backend->ops->let_go(at.ns->backend);
	}
}

bool group_lose(struct group *group)
{
	const char *why = find_loss(group);

	if (!why || group->state == GROUP_STANDS_BY || group->state == GROUP_CLOSES)
		return false;
	end_associations(group->target, group->subnqn);
	let_go(group);
	if (group_stand_by(group) < 0)
		return false;
	group_drop(group);
	group_count(group, GROUP_LOST);
	group->lost_why = why;
	error_set(&group->why, EXIT_FAILED, NULL, "%s", why);
	group_move(group, GROUP_STANDS_BY);
	group_log(group, "this rblkd is not the owner any more: %s", why);
	return true;
}
