/* SPDX-License-Identifier: BSD-3-Clause */
/* See host_id.h. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "target/association/connection_impl.h"
#include "target/association/controller.h"
#include "target/association/host.h"
#include "target/association/host_id.h"
#include "target/engine/record/about.h"
#include "target/export/guard/guard_new.h"
#include "transport/wire/strings.h"

/* Dying controllers count: a command that they have begun may still register. */
static const struct controller *find_connected(const struct target *target,
					       const struct host_id_claim *claim)
{
	list_for_each (node, &target->controllers) {
		const struct controller *other = list_entry(node, struct controller, node);

		if (!other->is_discovery && controller_state(other) != CONTROLLER_UNPROVEN &&
		    !memcmp(other->hostid, claim->hostid, sizeof(other->hostid)) &&
		    strcmp(other->hostnqn, claim->hostnqn) != 0 &&
		    !strcmp(other->subnqn, claim->subnqn))
			return other;
	}
	return NULL;
}

/* The host that is bound to the identifier, or the identifier that the host is bound to, decides
 * before all else. */
static enum host_id_owner find_bound(const struct host_id_claim *claim, bool *ret_is_bound,
				     char ret_nqn[NVMF_NQN_MAX + 1])
{
	const struct config_host *own = config_find_host(claim->config, claim->hostnqn);
	const struct config_host *bound = config_find_bound(claim->config, claim->hostid);

	*ret_is_bound = own && own == bound;
	if (bound && bound != own) {
		snprintf(ret_nqn, NVMF_NQN_MAX + 1, "%s", bound->nqn);
		return HOST_ID_BOUND_OTHER;
	}
	if (own && config_is_bound(own) && own != bound) {
		snprintf(ret_nqn, NVMF_NQN_MAX + 1, "%s", own->nqn);
		return HOST_ID_BOUND_TO_ANOTHER;
	}
	return HOST_ID_OWN;
}

static bool is_registered_by_other(const struct target *target, const struct host_id_claim *claim,
				   char ret_nqn[NVMF_NQN_MAX + 1])
{
	const struct subsystem *subsystem = snapshot_find(atomic_load(&target->snapshot),
							  claim->subnqn);

	for (unsigned i = 0; subsystem && i < subsystem->n_namespaces; i++)
		if (guard_is_of_other(subsystem->namespaces[i]->guard, claim->hostid,
				      claim->hostnqn, ret_nqn))
			return true;
	return false;
}

enum host_id_owner host_id_find_owner(const struct target *target,
				      const struct host_id_claim *claim,
				      char ret_nqn[NVMF_NQN_MAX + 1])
{
	const struct controller *other;
	bool is_bound;
	enum host_id_owner owner = find_bound(claim, &is_bound, ret_nqn);

	if (owner != HOST_ID_OWN || host_id_is_none(claim->hostid))
		return owner;
	/* Registrations from before the identifier was bound give no right to it. */
	if (!is_bound && is_registered_by_other(target, claim, ret_nqn))
		return HOST_ID_REGISTERED_OTHER;
	other = find_connected(target, claim);
	if (!other)
		return HOST_ID_OWN;
	memcpy(ret_nqn, other->hostnqn, sizeof(other->hostnqn));
	return HOST_ID_CONNECTED_OTHER;
}

void host_id_explain(enum host_id_owner found, const char *nqn, char ret_why[HOST_ID_WHY])
{
	const char *owner = hostnqn_label(nqn);

	switch (found) {
	case HOST_ID_OWN:
		break;
	case HOST_ID_REGISTERED_OTHER:
		snprintf(
			ret_why, HOST_ID_WHY,
			"its host identifier is that of host %s, which has registered it for reservations: give each host its own",
			owner);
		break;
	case HOST_ID_CONNECTED_OTHER:
		snprintf(
			ret_why, HOST_ID_WHY,
			"its host identifier is that of host %s, which is connected: give each host its own",
			owner);
		break;
	case HOST_ID_BOUND_OTHER:
		snprintf(
			ret_why, HOST_ID_WHY,
			"its host identifier is that of host %s by the key hostid: give each host its own",
			owner);
		break;
	case HOST_ID_BOUND_TO_ANOTHER:
		snprintf(ret_why, HOST_ID_WHY,
			 "its host identifier is not the one that the key hostid has for it");
		break;
	}
}

void host_id_note_bound(struct controller *controller)
{
	const struct config_host *bound = config_find_bound(controller->target->config,
							    controller->hostid);

	atomic_store(&controller->is_id_bound, bound && !strcmp(bound->nqn, controller->hostnqn));
}

void host_id_check(struct controller *controller)
{
	const struct host_id_claim claim = {controller->target->config, controller->subnqn,
					    controller->hostnqn, controller->hostid};
	char owner[NVMF_NQN_MAX + 1];
	enum host_id_owner found;

	if (controller->is_discovery || controller_state(controller) == CONTROLLER_DYING)
		return;
	host_id_note_bound(controller);
	found = host_id_find_owner(controller->target, &claim, owner);
	if (found == HOST_ID_OWN)
		return;
	if (found == HOST_ID_BOUND_TO_ANOTHER) {
		controller_kill(controller, "the configuration has another host identifier for it");
		return;
	}
	log_warn_about(CONTROLLER_ABOUT(controller),
		       "host %s: its host identifier is that of host %s: give each host its own",
		       hostnqn_label(controller->hostnqn), hostnqn_label(owner));
	controller_kill(controller, "its host identifier is another host's");
}
