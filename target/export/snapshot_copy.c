/* SPDX-License-Identifier: BSD-3-Clause */
/* See snapshot_copy.h. A half-built copy is freed as a whole one is. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rcu.h"
#include "target/export/ana.h"
#include "target/export/snapshot_copy.h"

/* NULL: no memory. */
static void *copy_items(const void *items, size_t n, size_t size)
{
	void *copy = calloc(n + 1, size);

	if (copy && n)
		memcpy(copy, items, n * size);
	return copy;
}

static struct namespace *choose(struct namespace *ns, const struct snapshot_change *change)
{
	for (unsigned i = 0; change && i < change->n; i++)
		if (change->namespaces[i]->nsid == ns->nsid)
			return change->namespaces[i];
	return ns;
}

static bool copy_ana(const struct subsystem *from, struct subsystem *into)
{
	const struct ana *ana = rcu_get(&from->ana);

	atomic_init(&into->ana, ana ? ana_copy(ana) : NULL);
	return !ana || rcu_get(&into->ana);
}

/* change: NULL if the subsystem does not differ. */
static bool copy_subsystem(const struct subsystem *from, const struct snapshot_change *change,
			   struct subsystem *into)
{
	*into = *from;
	atomic_init(&into->ana, NULL); /* of a change: when nothing can fail any more */
	into->hosts = copy_items(from->hosts, from->n_hosts, sizeof(*from->hosts));
	into->namespaces = calloc(from->n_namespaces + 1, sizeof(struct namespace *));
	into->n_namespaces = 0;
	for (unsigned i = 0; into->namespaces && i < from->n_namespaces; i++) {
		struct namespace *ns = choose(from->namespaces[i], change);

		ns->n_refs++;
		into->namespaces[into->n_namespaces++] = ns;
	}
	return into->hosts && into->namespaces && (change || copy_ana(from, into));
}

/* Forgets the namespaces: they are the caller's, or the other snapshot's. */
static struct snapshot *undo(struct snapshot *copy)
{
	struct list unused;

	for (unsigned i = 0; i < copy->n_subsystems; i++)
		for (unsigned j = 0; j < copy->subsystems[i].n_namespaces; j++)
			copy->subsystems[i].namespaces[j]->n_refs--;
	for (unsigned i = 0; i < copy->n_subsystems; i++)
		copy->subsystems[i].n_namespaces = 0;
	list_init(&unused);
	snapshot_retire(copy, &unused);
	return NULL;
}

static bool copy_rest(const struct snapshot *before, struct snapshot *copy)
{
	copy->referrals = copy_items(before->referrals, before->n_referrals,
				     sizeof(*before->referrals));
	return copy->referrals && credentials_copy(&before->credentials, &copy->credentials) == 0;
}

struct snapshot *snapshot_copy(const struct snapshot *before, const struct snapshot_change *change)
{
	struct snapshot *copy = malloc(sizeof(*copy));
	struct subsystem *changed = NULL;

	if (!copy)
		return NULL;
	*copy = *before;
	copy->generation++; /* queues keep what they have found in a generation */
	copy->n_subsystems = 0;
	copy->credentials = (struct credentials_list){0};
	copy->subsystems = calloc(before->n_subsystems + 1, sizeof(*copy->subsystems));
	if (!copy_rest(before, copy) || !copy->subsystems)
		return undo(copy);
	while (copy->n_subsystems < before->n_subsystems) {
		const struct subsystem *from = &before->subsystems[copy->n_subsystems];
		struct subsystem *into = &copy->subsystems[copy->n_subsystems++];
		bool is_changed = !strcmp(from->nqn, change->subnqn);

		if (!copy_subsystem(from, is_changed ? change : NULL, into))
			return undo(copy);
		if (is_changed)
			changed = into;
	}
	check(changed);
	atomic_init(&changed->ana, change->ana);
	return copy;
}
