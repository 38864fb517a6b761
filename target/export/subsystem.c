/* SPDX-License-Identifier: BSD-3-Clause */
/* See subsystem.h: lookups. */
#include <stdio.h>
#include <string.h>

#include "target/export/subsystem.h"

bool subsystem_allows(const struct subsystem *subsystem, const char *hostnqn)
{
	if (subsystem->allows_any_host)
		return true;
	for (unsigned i = 0; i < subsystem->n_hosts; i++)
		if (!strcmp(subsystem->hosts[i], hostnqn))
			return true;
	return false;
}

bool subsystem_is_on_portal(const struct subsystem *subsystem, unsigned portal_index)
{
	return portal_index < 32 && subsystem->portal_mask >> portal_index & 1;
}

/* The index of the first namespace with an nsid above this one. */
static unsigned index_above(const struct subsystem *subsystem, uint32_t nsid)
{
	unsigned low = 0, high = subsystem->n_namespaces;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (subsystem->namespaces[middle]->nsid > nsid)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* No write goes through one that is read-only. */
const struct namespace *subsystem_least_locked(const struct subsystem *subsystem)
{
	const struct namespace *least = NULL;

	for (unsigned i = 0; i < subsystem->n_namespaces; i++) {
		const struct namespace *ns = subsystem->namespaces[i];
		const struct backend_limits *limits = &ns->backend->limits;

		if (!limits->is_read_only &&
		    (!least || limits->others < least->backend->limits.others))
			least = ns;
	}
	return least;
}

enum backend_others subsystem_others(const struct subsystem *subsystem)
{
	const struct namespace *least = subsystem_least_locked(subsystem);

	return least ? least->backend->limits.others : OTHERS_NONE;
}

bool subsystem_is_named(const struct subsystem *subsystem, const struct namespace *ns,
			const char *name)
{
	char text[NVMF_NQN_MAX + 16];

	if (!name || !strcmp(name, subsystem->nqn))
		return true;
	snprintf(text, sizeof(text), "%s/%u", subsystem->nqn, ns->nsid);
	return !strcmp(name, text);
}

struct namespace *subsystem_namespace(const struct subsystem *subsystem, uint32_t nsid)
{
	unsigned above;

	/* Most subsystems number their namespaces from 1 on. */
	if (nsid - 1 < subsystem->n_namespaces && subsystem->namespaces[nsid - 1]->nsid == nsid)
		return subsystem->namespaces[nsid - 1];
	above = index_above(subsystem, nsid);
	if (!above || subsystem->namespaces[above - 1]->nsid != nsid)
		return NULL;
	return subsystem->namespaces[above - 1];
}

struct namespace *subsystem_next_namespace(const struct subsystem *subsystem, uint32_t above)
{
	unsigned i = index_above(subsystem, above);

	return i < subsystem->n_namespaces ? subsystem->namespaces[i] : NULL;
}
