/* SPDX-License-Identifier: BSD-3-Clause */
/* See host_id.h. */
#include <string.h>

#include "base/log.h"
#include "target/association/controller.h"
#include "target/association/host.h"
#include "target/association/host_id.h"
#include "target/engine/about.h"

/* Dying controllers count: a command that they have begun may still register. */
static const struct controller *find_connected(const struct target *target, const char *subnqn,
					       const uint8_t hostid[16], const char *hostnqn)
{
	list_for_each (node, &target->controllers) {
		const struct controller *other = list_entry(node, struct controller, node);

		if (!other->is_discovery && controller_state(other) != CONTROLLER_UNPROVEN &&
		    !memcmp(other->hostid, hostid, sizeof(other->hostid)) &&
		    strcmp(other->hostnqn, hostnqn) != 0 && !strcmp(other->subnqn, subnqn))
			return other;
	}
	return NULL;
}

enum host_id_owner host_id_find_owner(const struct target *target, const char *subnqn,
				      const uint8_t hostid[16], const char *hostnqn,
				      char ret_nqn[NVMF_NQN_MAX + 1])
{
	const struct subsystem *subsystem = snapshot_find(atomic_load(&target->snapshot), subnqn);
	const struct controller *other;

	if (host_id_is_none(hostid))
		return HOST_ID_OWN;
	for (unsigned i = 0; subsystem && i < subsystem->n_namespaces; i++)
		if (guard_is_of_other(subsystem->namespaces[i]->guard, hostid, hostnqn, ret_nqn))
			return HOST_ID_REGISTERED_OTHER;
	other = find_connected(target, subnqn, hostid, hostnqn);
	if (!other)
		return HOST_ID_OWN;
	memcpy(ret_nqn, other->hostnqn, sizeof(other->hostnqn));
	return HOST_ID_CONNECTED_OTHER;
}

void host_id_check(struct controller *controller)
{
	char owner[NVMF_NQN_MAX + 1];

	if (controller->is_discovery || controller_state(controller) == CONTROLLER_DYING ||
	    host_id_find_owner(controller->target, controller->subnqn, controller->hostid,
			       controller->hostnqn, owner) == HOST_ID_OWN)
		return;
	log_warn_about(CONTROLLER_ABOUT(controller),
		       "host %s: its host identifier is that of host %s: give each host its own",
		       hostnqn_label(controller->hostnqn), hostnqn_label(owner));
	controller_kill(controller, "its host identifier is another host's");
}
