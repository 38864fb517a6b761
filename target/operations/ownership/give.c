/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See give.h. No command of this term reaches the store in a later one: hosts have no I/O any more,
 * commands that have begun end, and only then other objects take the place of the namespaces. Those
 * close their stores, and with the last descriptor the kernel frees the lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/rcu.h"
#include "target/export/ana.h"
#include "target/export/namespace_new.h"
#include "target/operations/change/ana_change.h"
#include "target/operations/ownership/give.h"
#include "target/operations/ownership/publish.h"
#include "target/store/standby.h"

static unsigned index_of(const struct group *group)
{
	const struct subsystem *subsystem = snapshot_find(atomic_load(&group->target->snapshot),
							  group->subnqn);

	return ana_find(rcu_get(&subsystem->ana), group->id);
}

/* Refuses while there is something that the next owner could not know, or would not find. */
static int check_give(const struct group *group, struct error *error)
{
	const char *why_not = target_refuse_change(group->target);

	if (why_not)
		return error_refuse(error, -EBUSY, "%s", why_not);
	if (group->state != GROUP_OWNS)
		return error_refuse(error, -EINVAL, "this rblkd is not its owner: it is %s",
				    group_state_name(group));
	for (struct namespace_at at = {0}; group_next(group, &at);) {
		if (atomic_load(&at.ns->backend->has_failed))
			return error_refuse(
				error, -EIO,
				"namespace %s/%u has failed: look at its contents, then restart rblkd",
				group->subnqn, at.ns->nsid);
		if (atomic_load(&at.ns->guard->is_unkept))
			return error_refuse(
				error, -EIO,
				"the reservations of namespace %s/%u could not be kept: see rblkctl status",
				group->subnqn, at.ns->nsid);
	}
	return 0;
}

int group_give(struct group *group, struct error *error)
{
	int r = check_give(group, error);

	if (r < 0)
		return r;
	if (ana_change_owner(group->target, group->subnqn, index_of(group), ANA_OWNER_OTHER) < 0)
		return error_refuse(error, -ENOMEM, "out of memory");
	group->why = (struct error){0};
	group_move(group, GROUP_DRAINS);
	return 0;
}

/* ---- draining ------------------------------------------------------------------------------- */

static bool is_idle(const struct group *group)
{
	for (struct namespace_at at = {0}; group_next(group, &at);)
		for (unsigned i = 0; i < POLLERS_MAX; i++)
			if (counter_get(&at.ns->counters[i].n_in_flight))
				return false;
	return true;
}

static void keep(struct group *group, const char *why)
{
	error_set(&group->why, EXIT_FAILED, NULL, "%s", why);
	if (ana_change_owner(group->target, group->subnqn, index_of(group), ANA_OWNER_LOCK) < 0)
		return; /* the next look tries again */
	group_move(group, GROUP_OWNS);
	group_log(group, "this rblkd stays the owner: %s", why);
}

/* The namespace as hosts see it from now on. NULL: no memory. */
static struct namespace *make_standby(const struct group *group, const struct namespace *owned)
{
	struct namespace_origin from = {
		.subnqn = group->subnqn,
		.config = config_find_namespace(group_config(group), owned->nsid),
		.backend = backend_stand_by_after(owned->backend),
		.health = owned->health,
	};
	struct error error;
	struct conf_mark mark;

	return from.backend ? namespace_new(&from, &error, &mark) : NULL;
}

static unsigned count(const struct group *group)
{
	unsigned n = 0;

	for (struct namespace_at at = {0}; group_next(group, &at);)
		n++;
	return n;
}

int group_stand_by(struct group *group)
{
	_autofree_ struct namespace **namespaces = calloc(count(group) + 1,
							  sizeof(struct namespace *));
	struct publication publication = {.namespaces = namespaces, .owner = ANA_OWNER_OTHER};
	int r = namespaces ? 0 : -ENOMEM;

	for (struct namespace_at at = {0}; r == 0 && group_next(group, &at);) {
		struct namespace *ns = make_standby(group, at.ns);

		if (ns)
			namespaces[publication.n++] = ns;
		else
			r = -ENOMEM;
	}
	if (r == 0)
		r = group_publish(group, &publication);
	for (unsigned i = 0; r < 0 && i < publication.n; i++)
		namespace_free(namespaces[i]);
	return r;
}

static void look_at_commands(struct group *group)
{
	uint64_t limit_ns = group->since_ns + GIVE_LIMIT_S * NSEC_PER_SEC;

	if (!is_idle(group)) {
		if (clock_ns() > limit_ns)
			keep(group, "commands did not end in time");
		return;
	}
	if (group_stand_by(group) < 0) {
		keep(group, "out of memory");
		return;
	}
	group_move(group, GROUP_CLOSES);
}

/* ---- closing -------------------------------------------------------------------------------- */

static bool is_closed(const struct group *group)
{
	for (struct namespace_at at = {0}; group_next(group, &at);)
		if (at.ns->path && retire_has(&group->target->retire, at.ns->path))
			return false;
	return true;
}

bool group_give_on(struct group *group)
{
	if (group->state == GROUP_DRAINS)
		look_at_commands(group);
	if (group->state == GROUP_CLOSES && is_closed(group)) {
		group_count(group, GROUP_GIVEN);
		group_move(group, GROUP_STANDS_BY);
		group_log(group, "given away: this rblkd stands by");
	}
	return group->state == GROUP_STANDS_BY || group->state == GROUP_OWNS;
}
