/* SPDX-License-Identifier: BSD-3-Clause */
/* See exports.h: lookups. */
#include "target/config/exports.h"

#include <stddef.h>

const struct config_namespace *config_find_namespace(const struct config_subsystem *subsystem,
						     uint32_t nsid)
{
	const struct config_namespace *namespaces = subsystem->namespaces.items;

	for (unsigned i = 0; i < subsystem->namespaces.n; i++)
		if (namespaces[i].nsid == nsid)
			return &namespaces[i];
	return NULL;
}

const struct config_ana_group *config_find_group(const struct config_subsystem *subsystem,
						 uint64_t id)
{
	const struct config_ana_group *groups = subsystem->ana_groups.items;

	for (unsigned i = 0; i < subsystem->ana_groups.n; i++)
		if (groups[i].id == id)
			return &groups[i];
	return NULL;
}

bool config_has_owner(const struct config_subsystem *subsystem, const struct config_namespace *ns)
{
	const struct config_ana_group *group = config_find_group(subsystem, ns->ana_group);

	return group && group->owner == CONFIG_OWNER_LOCK;
}
