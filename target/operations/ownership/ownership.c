/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See ownership.h. The kernel announces no free lock, so an rblkd that stands by tries; a try
 * costs an open and a lock of its first store.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "target/config/store.h"
#include "target/operations/ownership/give.h"
#include "target/operations/ownership/lose.h"
#include "target/operations/ownership/ownership.h"
#include "target/operations/ownership/take.h"
#include "target/store/standby.h"

enum {
	TRY_MS = 20,
	GIVE_MS = 5,
	FAILED_MS = 1000,   /* after an error that time may not mend */
	HOLD_MS = 500,	    /* after it was given away: the others come first */
	FAR_HOLD_MS = 3000, /* the same, where others look for the lock more rarely */
};

static bool is_missing_a_store(const struct group *group)
{
	for (struct namespace_at at = {0}; group_next(group, &at);)
		if (backend_stands_by(at.ns->backend))
			return true;
	return false;
}

static void look_again(struct group *group, uint64_t ms)
{
	loop_timer_start(&group->target->loop, &group->timer, ms * NSEC_PER_MSEC);
}

/* ---- the timer ------------------------------------------------------------------------------ */

/* Logs a failure once: it is tried every second. */
static void note_failure(struct group *group, const struct error *before)
{
	if (strcmp(before->message, group->why.message) != 0)
		log_err_about(LOG_ABOUT(.subsystem = group->subnqn),
			      "%s, group %u: cannot be its owner: %s", group->subnqn, group->id,
			      group->why.message);
}

static void take(struct group *group)
{
	struct error before = group->why;
	int r = group_take(group);

	if (r == 0)
		return;
	if (r != -EBUSY && r != -EINPROGRESS && r != -ENOENT) {
		note_failure(group, &before);
		group_drop(group);
		if (group->state == GROUP_TAKES)
			group_move(group, GROUP_STANDS_BY);
		look_again(group, FAILED_MS);
		return;
	}
	look_again(group, TRY_MS);
}

static uint64_t hold_ms(const struct group *group)
{
	const struct config_subsystem *subsystem = group_config(group);

	for (struct namespace_at at = {0}; subsystem && group_next(group, &at);) {
		struct backend_config how;
		struct conf_mark mark;
		const struct config_namespace *ns = config_find_namespace(subsystem, at.ns->nsid);

		if (ns && config_backend(ns, &how, &mark)->has_cluster)
			return FAR_HOLD_MS;
	}
	return HOLD_MS;
}

static void look(struct group *group)
{
	if (group_lose(group)) {
		look_again(group, FAILED_MS);
		return;
	}
	switch (group->state) {
	case GROUP_STANDS_BY:
	case GROUP_TAKES:
		take(group);
		return;
	case GROUP_OWNS:
		if (!is_missing_a_store(group))
			return;
		group_move(group, GROUP_TAKES);
		take(group);
		return;
	case GROUP_DRAINS:
	case GROUP_CLOSES:
		if (!group_give_on(group))
			look_again(group, GIVE_MS);
		else if (group->state == GROUP_STANDS_BY)
			look_again(group, hold_ms(group));
		return;
	case GROUP_STATES:
		break;
	}
}

static void on_timer(struct loop_timer *timer)
{
	look(container_of(timer, struct group, timer));
}

/* A store is lost, or has another size. */
static void on_store_change(struct target *target)
{
	list_for_each (node, &target->groups) {
		struct group *group = list_entry(node, struct group, node);

		if (group->state == GROUP_OWNS || group->state == GROUP_DRAINS)
			look(group);
	}
	retire_let_go(&target->retire);
}

/* While rblkd ends it only must not wait for what is held back. */
static void on_last_change(struct target *target)
{
	group_lose_all(target);
	retire_let_go(&target->retire);
}

/* ---- groups --------------------------------------------------------------------------------- */

struct group *ownership_find(struct target *target, const char *subnqn, uint32_t id)
{
	list_for_each (node, &target->groups) {
		struct group *group = list_entry(node, struct group, node);

		if (group->id == id && !strcmp(group->subnqn, subnqn))
			return group;
	}
	return NULL;
}

static struct group *add(struct target *target, const char *subnqn, uint32_t id)
{
	struct group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->target = target;
	snprintf(group->subnqn, sizeof(group->subnqn), "%s", subnqn);
	group->id = id;
	group->since_ns = clock_ns();
	group->timer.on_expiry = on_timer;
	list_add_tail(&target->groups, &group->node);
	return group;
}

static void drop(struct group *group)
{
	loop_timer_stop(&group->timer);
	group_drop(group);
	list_remove(&group->node);
	free(group);
}

static bool is_configured(const struct group *group)
{
	const struct config_subsystem *subsystem = group_config(group);
	const struct config_ana_group *config = subsystem ? config_find_group(subsystem, group->id)
							  : NULL;

	return config && config->owner == CONFIG_OWNER_LOCK;
}

static int add_missing(struct target *target, const struct config_subsystem *subsystem)
{
	const struct config_ana_group *groups = subsystem->ana_groups.items;

	for (unsigned i = 0; i < subsystem->ana_groups.n; i++)
		if (groups[i].owner == CONFIG_OWNER_LOCK &&
		    !ownership_find(target, subsystem->nqn, (uint32_t)groups[i].id) &&
		    !add(target, subsystem->nqn, (uint32_t)groups[i].id))
			return -ENOMEM;
	return 0;
}

int ownership_start(struct target *target)
{
	const struct config_subsystem *subsystems = target->config->subsystems.items;
	int r = 0;

	target->on_store_change = on_store_change;
	for (unsigned i = 0; r == 0 && i < target->config->subsystems.n; i++)
		r = add_missing(target, &subsystems[i]);
	list_for_each (node, &target->groups) {
		struct group *group = list_entry(node, struct group, node);

		if (!loop_timer_is_running(&group->timer))
			look(group);
	}
	return r < 0 ? log_errno(r, "cannot keep groups with an owner") : 0;
}

void ownership_follow(struct target *target)
{
	list_for_each_safe (node, &target->groups) {
		struct group *group = list_entry(node, struct group, node);

		if (!is_configured(group))
			drop(group);
	}
	(void)ownership_start(target); /* logs */
}

void ownership_stop(struct target *target)
{
	if (target->on_store_change)
		target->on_store_change = on_last_change;
	list_for_each_safe (node, &target->groups)
		drop(list_entry(node, struct group, node));
}

int ownership_give(struct group *group, struct error *error)
{
	int r = group_give(group, error);

	if (r == 0)
		look_again(group, GIVE_MS);
	return r;
}
