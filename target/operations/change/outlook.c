/* SPDX-License-Identifier: BSD-3-Clause */
/* See outlook.h. */
#include <string.h>

#include "target/export/ana.h"
#include "target/engine/record/portal.h"
#include "target/association/host_id.h"
#include "target/operations/change/outlook.h"

bool outlook_counts(const struct controller *controller)
{
	enum controller_state state = controller_state(controller);

	return !controller->is_discovery && state != CONTROLLER_UNPROVEN &&
	       state != CONTROLLER_DYING;
}

/* ---- secrets -------------------------------------------------------------------------------- */

static bool is_accepted(const struct credentials *credentials, uint64_t mark)
{
	return !credentials || credentials_accept(credentials, mark);
}

static bool is_ours(const struct credentials *credentials, uint64_t mark)
{
	return !credentials || credentials_ctrl_mark(credentials) == mark;
}

static enum loss loss_of_proof(const struct outlook *o, const struct controller *controller)
{
	const struct snapshot *snapshot = atomic_load(&o->target->snapshot);
	const struct credentials *before = credentials_find(&snapshot->credentials,
							    controller->hostnqn);
	const struct credentials *after = credentials_find(o->credentials, controller->hostnqn);
	uint64_t mark = atomic_load(&controller->key_mark);
	uint64_t ctrl_mark = atomic_load(&controller->ctrl_key_mark);

	if (!after)
		return LOSS_NOTHING;
	if (!mark)
		return before ? LOSS_NOTHING : LOSS_PROOF;
	if (is_accepted(before, mark) && !is_accepted(after, mark))
		return LOSS_SECRET;
	if (ctrl_mark && is_ours(before, ctrl_mark) && !is_ours(after, ctrl_mark))
		return LOSS_OUR_SECRET;
	return LOSS_NOTHING;
}

/* ---- identifiers ---------------------------------------------------------------------------- */

/* Another connected host that has it would be gone with the change, or this one would not be. */
static bool is_others(const struct outlook *o, const struct target_config *config,
		      const struct controller *controller)
{
	const struct host_id_claim claim = {config, controller->subnqn, controller->hostnqn,
					    controller->hostid};
	char owner[NVMF_NQN_MAX + 1];
	enum host_id_owner found = host_id_find_owner(o->target, &claim, owner);

	return found != HOST_ID_OWN && found != HOST_ID_CONNECTED_OTHER;
}

static bool loses_identifier(const struct outlook *o, const struct controller *controller)
{
	return is_others(o, o->after, controller) && !is_others(o, o->target->config, controller);
}

/* ---- portals -------------------------------------------------------------------------------- */

static bool is_listed(const struct config_subsystem *subsystem, const char *portal)
{
	const struct config_name *names = subsystem->portals.items;

	for (unsigned i = 0; i < subsystem->portals.n; i++)
		if (!strcmp(names[i].name, portal))
			return true;
	return !subsystem->portals.n;
}

/* The address that the host has connected to, with the port of its portal. */
static union addr address_of(const struct controller *controller)
{
	union addr address = controller->local;
	uint16_t port = addr_port(&controller->portal->address);

	if (!addr_is_wildcard(&controller->portal->address))
		return controller->portal->address;
	if (address.sa.sa_family == AF_INET6)
		address.in6.sin6_port = htons(port);
	else
		address.in.sin_port = htons(port);
	return address;
}

static bool leads_to(const union addr *portal, const union addr *address)
{
	return addr_is_equal(portal, address) ||
	       (addr_is_wildcard(portal) && portal->sa.sa_family == address->sa.sa_family &&
		addr_port(portal) == addr_port(address));
}

static bool is_reached(const struct target_config *config, const struct controller *controller)
{
	const struct config_subsystem *subsystem = config_find_subsystem(config,
									 controller->subnqn);
	const struct config_portal *portals = config->portals.items;
	union addr address = address_of(controller);

	for (unsigned i = 0; subsystem && i < config->portals.n; i++)
		if (is_listed(subsystem, portals[i].name) && leads_to(&portals[i].addr, &address))
			return true;
	return false;
}

/* ---- all ------------------------------------------------------------------------------------ */

enum loss outlook_of(const struct outlook *o, const struct controller *controller)
{
	const struct config_subsystem *subsystem = config_find_subsystem(o->after,
									 controller->subnqn);
	enum loss loss;

	if (!subsystem)
		return LOSS_SUBSYSTEM;
	if (!config_allows(o->after, subsystem, controller->hostnqn))
		return LOSS_PERMISSION;
	loss = loss_of_proof(o, controller);
	if (loss != LOSS_NOTHING)
		return loss;
	if (loses_identifier(o, controller))
		return LOSS_HOST_ID;
	if (is_reached(o->target->config, controller) && !is_reached(o->after, controller))
		return LOSS_PORTAL;
	return LOSS_NOTHING;
}

bool outlook_has_other_way(const struct outlook *o, const struct controller *controller,
			   uint32_t nsid, const struct ana *ana)
{
	list_for_each (node, &o->target->controllers) {
		const struct controller *other = list_entry(node, struct controller, node);

		if (other != controller && other->host == controller->host &&
		    outlook_counts(other) && !strcmp(other->subnqn, controller->subnqn) &&
		    (!nsid || uses_has(&other->uses, nsid)) &&
		    outlook_of(o, other) == LOSS_NOTHING &&
		    ana_check(ana, nsid, other->portal->index) == NVME_OK)
			return true;
	}
	return false;
}
