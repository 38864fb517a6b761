/* SPDX-License-Identifier: BSD-3-Clause */
/* See last_path.h. */
#include <string.h>

#include "base/rcu.h"
#include "target/engine/record/portal.h"
#include "target/operations/change/last_path.h"

/* change NULL: as it is now. */
static bool is_drained(const struct path_change *change, const struct controller *controller)
{
	const struct portal *portal = controller->portal;

	return portal_is_drained(portal) ||
	       (change && change->drained && !strcmp(change->drained, portal->name));
}

static bool is_open(const struct path_change *change, const struct controller *controller,
		    uint32_t nsid)
{
	const struct snapshot *snapshot = atomic_load(&controller->target->snapshot);
	const struct subsystem *subsystem = snapshot_find(snapshot, controller->subnqn);
	bool is_new = change && change->subnqn && !strcmp(change->subnqn, controller->subnqn);

	return subsystem && !is_drained(change, controller) &&
	       ana_check(is_new ? change->ana : rcu_get(&subsystem->ana), nsid,
			 controller->portal->index) == NVME_OK;
}

static bool has_other_path(const struct path_change *change, const struct controller *controller,
			   uint32_t nsid)
{
	list_for_each (node, &change->target->controllers) {
		const struct controller *other = list_entry(node, struct controller, node);

		if (other != controller && other->host == controller->host &&
		    uses_has(&other->uses, nsid) && outlook_counts(other) &&
		    !strcmp(other->subnqn, controller->subnqn) && is_open(change, other, nsid))
			return true;
	}
	return false;
}

bool path_change_cuts(const struct path_change *change, const struct controller *controller)
{
	if (!outlook_counts(controller))
		return false;
	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++)
		if (uses_has(&controller->uses, nsid) && is_open(NULL, controller, nsid) &&
		    !is_open(change, controller, nsid) && !has_other_path(change, controller, nsid))
			return true;
	return false;
}
