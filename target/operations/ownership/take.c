/* SPDX-License-Identifier: BSD-3-Clause */
/* See take.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "target/config/store.h"
#include "target/export/ana.h"
#include "target/export/namespace_new.h"
#include "target/operations/ownership/publish.h"
#include "target/operations/ownership/take.h"
#include "target/store/backends.h"
#include "target/store/standby.h"

/* Forgets all stores; those before `first` have another owner by now. */
static void drop_from(struct group *group, unsigned first)
{
	for (unsigned i = first; i < group->n_stores; i++)
		group->stores[i].backend->ops->close(group->stores[i].backend);
	free(group->stores);
	group->stores = NULL;
	group->n_stores = 0;
}

void group_drop(struct group *group)
{
	drop_from(group, 0);
}

/* ---- locks ---------------------------------------------------------------------------------- */

static bool has_store(const struct group *group, uint32_t nsid)
{
	for (unsigned i = 0; i < group->n_stores; i++)
		if (group->stores[i].nsid == nsid)
			return true;
	return false;
}

static int add_store(struct group *group, uint32_t nsid, struct backend *backend)
{
	struct group_store *more = realloc(group->stores,
					   (group->n_stores + 1) * sizeof(*group->stores));

	if (!more) {
		backend->ops->close(backend);
		return error_refuse(&group->why, -ENOMEM, "out of memory");
	}
	group->stores = more;
	group->stores[group->n_stores++] = (struct group_store){nsid, backend};
	return 0;
}

/* The lock, and with it the store. */
static int open_store(struct group *group, const struct config_namespace *config)
{
	struct backend_config how;
	struct conf_mark mark;
	const struct backend_ops *ops = config_backend(config, &how, &mark);
	struct backend *backend;
	int r;

	how.role = BACKEND_OWNS;
	how.lease_ns = config_find_group(group_config(group), group->id)->lease_ns;
	if (ops->prepare && ops->prepare(&how) == -EINPROGRESS)
		return -EINPROGRESS;
	r = ops->open(&how, &backend, &group->why);
	if (r < 0)
		return r;
	if (backend->limits.others != OTHERS_ANY)
		return add_store(group, (uint32_t)config->nsid, backend);
	backend->ops->close(backend);
	return error_refuse(&group->why, -ENOLCK,
			    "%s: its file system has no locks, so that its owner cannot be known",
			    how.path);
}

static bool is_to_wait(int r)
{
	return r == -EBUSY || r == -EINPROGRESS;
}

/* The first store decides on the owner. An rblkd that has it waits for all others at the same time,
 * as each may take long to open. */
static int open_stores(struct group *group)
{
	const struct config_subsystem *subsystem = group_config(group);
	bool is_empty = true;
	int r = 0;

	for (struct namespace_at at = {0}; group_next(group, &at);) {
		int one = 0;

		is_empty = false;
		if (backend_stands_by(at.ns->backend) && !has_store(group, at.ns->nsid))
			one = open_store(group, config_find_namespace(subsystem, at.ns->nsid));
		if (one < 0)
			r = one;
		if (one < 0 && (!group->n_stores || !is_to_wait(one)))
			break;
	}
	return is_empty ? -ENOENT : r;
}

/* ---- serving -------------------------------------------------------------------------------- */

/* The store's backend belongs to the namespace, or is closed. */
static struct namespace *make(struct group *group, const struct group_store *store)
{
	const struct target *target = group->target;
	const struct config_subsystem *subsystem = group_config(group);
	const struct subsystem *is = snapshot_find(atomic_load(&target->snapshot), group->subnqn);
	const struct namespace_origin from = {
		.subnqn = group->subnqn,
		.config = config_find_namespace(subsystem, store->nsid),
		.backend = store->backend,
		.state = target->runtime.groups,
		.health = is->health,
	};
	struct conf_mark mark;

	return namespace_new(&from, &group->why, &mark);
}

static void free_all(struct namespace **namespaces, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		namespace_free(namespaces[i]);
}

static int serve(struct group *group)
{
	unsigned n_wanted = group->n_stores, n = 0;
	_autofree_ struct namespace **namespaces = calloc(n_wanted, sizeof(*namespaces));
	struct publication publication = {.namespaces = namespaces, .owner = ANA_OWNER_LOCK};
	int r;

	if (!namespaces) {
		group_drop(group);
		return error_refuse(&group->why, -ENOMEM, "out of memory");
	}
	while (n < n_wanted && (namespaces[n] = make(group, &group->stores[n])))
		n++;
	drop_from(group, n < n_wanted ? n + 1 : n); /* one that failed has closed its store */
	publication.n = n;
	r = n == n_wanted ? group_publish(group, &publication) : -EIO;
	if (r == -ENOMEM)
		error_refuse(&group->why, r, "out of memory");
	if (r < 0)
		free_all(namespaces, n);
	return r;
}

int group_take(struct group *group)
{
	int r = open_stores(group);

	if (group->n_stores && group->state != GROUP_TAKES)
		group_move(group, GROUP_TAKES);
	if (r == 0 && group->n_stores)
		r = serve(group);
	if (r < 0)
		return r;
	group_count(group, GROUP_TAKEN);
	group->why = (struct error){0};
	group_move(group, GROUP_OWNS);
	group_log(group, "this rblkd is the owner: it has the locks of all stores");
	return 0;
}
