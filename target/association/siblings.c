/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See siblings.h. This is no proof: a write may arrive at another association before rblkd knows
 * that the first one is lost. It covers what hosts without Cross-Controller Reset do most often:
 * they repeat a write at once on a path that is connected already.
 */
#include <string.h>

#include "target/association/connection_impl.h"
#include "target/association/host.h"
#include "target/association/siblings.h"
#include "target/engine/record/controller.h"
#include "target/export/guard/guard_new.h"

/* Orderly shutdown leaves nothing behind; a host that has proven nothing has no writes here. */
static bool is_quiescing(const struct controller *controller)
{
	if (controller_state(controller) != CONTROLLER_DYING || !controller->fencing.was_serving)
		return false;
	list_for_each (node, &controller->connections) {
		const struct connection *c = list_entry(node, struct connection, member_node);

		if (connection_is_admitted(c) && c->state != CONNECTION_STRANDED)
			return true;
	}
	return false;
}

static void mark_guards(const struct target *target, const char *subnqn, bool is_dying)
{
	const struct subsystem *subsystem = snapshot_find(atomic_load(&target->snapshot), subnqn);

	for (unsigned i = 0; subsystem && i < subsystem->n_namespaces; i++)
		guard_set_flag(subsystem->namespaces[i]->guard, GUARD_HOST_DYING, is_dying);
}

void siblings_update(struct controller *controller)
{
	const struct target *target = controller->target;
	unsigned n_of_host = 0, n_of_subsystem = 0;

	if (controller->is_discovery)
		return;
	list_for_each (node, &target->controllers) {
		const struct controller *other = list_entry(node, struct controller, node);

		if (!is_quiescing(other))
			continue;
		n_of_host += other->host == controller->host;
		n_of_subsystem += !strcmp(other->subnqn, controller->subnqn);
	}
	atomic_store(&controller->host->n_dying, n_of_host);
	mark_guards(target, controller->subnqn, n_of_subsystem > 0);
}

void siblings_update_all(struct target *target)
{
	list_for_each (node, &target->controllers)
		siblings_update(list_entry(node, struct controller, node));
}
