/* SPDX-License-Identifier: BSD-3-Clause */
/* See group.h. */
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rcu.h"
#include "base/states.h"
#include "target/export/ana.h"
#include "target/operations/ownership/group.h"

#define TO(s) STATE_TO(GROUP_##s)

static const struct state_rule states[GROUP_STATES] = {
	[GROUP_STANDS_BY] = {"standing by", TO(TAKES)},
	[GROUP_TAKES] = {"taking", TO(STANDS_BY) | TO(OWNS)},
	[GROUP_OWNS] = {"owner", TO(TAKES) | TO(DRAINS) | TO(STANDS_BY)},
	[GROUP_DRAINS] = {"draining", TO(OWNS) | TO(CLOSES) | TO(STANDS_BY)},
	[GROUP_CLOSES] = {"closing", TO(STANDS_BY)},
};

const char *group_state_name(const struct group *group)
{
	return states[group->state].name;
}

void group_move(struct group *group, enum group_state next)
{
	states_move("group", states, &group->state, next);
	group->since_ns = clock_ns();
}

void group_count(struct group *group, enum group_move_cause cause)
{
	group->moves[cause].n++;
	group->moves[cause].last_s = (uint64_t)clock_wall_s();
}

const char *group_move_cause_name(enum group_move_cause cause)
{
	static const char *const names[] = {
		[GROUP_TAKEN] = "taken", [GROUP_GIVEN] = "given", [GROUP_LOST] = "lost"};

	return names[cause];
}

const struct config_subsystem *group_config(const struct group *group)
{
	return config_find_subsystem(group->target->config, group->subnqn);
}

bool group_next(const struct group *group, struct namespace_at *at)
{
	const struct snapshot *snapshot = rcu_get(&group->target->snapshot);

	while (snapshot_next(snapshot, at)) {
		const struct ana *ana = rcu_get(&at->subsystem->ana);
		const struct ana_group *of = ana ? ana_group_of(ana, at->ns->nsid) : NULL;

		if (of && of->id == group->id && !strcmp(at->subsystem->nqn, group->subnqn))
			return true;
	}
	return false;
}

void group_log(const struct group *group, const char *fmt, ...)
{
	char text[ERROR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_info_about(LOG_ABOUT(.subsystem = group->subnqn), "%s, group %u: %s", group->subnqn,
		       group->id, text);
}
