/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl ana set; see ana_change.h. Control thread.
 *
 * The pollers see one pointer change, in the subsystem of the current snapshot. Only this thread
 * replaces snapshots, so that snapshot stays current during the change.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/rcu.h"
#include "target/operations/change/ana_change.h"
#include "target/command/admin/notice.h"
#include "target/association/portal.h"
#include "transport/wire/strings.h"

static struct subsystem *find(struct target *target, const char *subnqn)
{
	struct snapshot *snapshot = atomic_load(&target->snapshot);
	const struct subsystem *subsystem = snapshot_find(snapshot, subnqn);

	check(subsystem);
	/* Not const for control: only the atomic pointer changes. */
	return &snapshot->subsystems[subsystem - snapshot->subsystems];
}

unsigned ana_tell(struct target *target, const char *subnqn, const struct ana *before,
		  const struct ana *after, unsigned group)
{
	unsigned n = 0;

	for (unsigned portal = 0; portal < PORTALS_MAX; portal++) {
		enum nvme_ana_state is = after->groups[group].views[portal].state;

		if (before->groups[group].views[portal].state == is)
			continue;
		if (portal_is_used(&target->portals[portal]))
			log_info_about(LOG_ABOUT(.subsystem = subnqn,
						 .portal = target->portals[portal].name),
				       "%s, ANA group %u, portal %s: %s", subnqn,
				       after->groups[group].id, target->portals[portal].name,
				       nvme_ana_state_string(is));
		if (ana_is_news(before, after, portal))
			n += notice_ana(target, subnqn, portal);
	}
	return n;
}

static unsigned publish(struct target *target, struct subsystem *subsystem, struct ana *after,
			unsigned group)
{
	struct ana *before = rcu_get(&subsystem->ana);
	unsigned n_told;

	rcu_set(&subsystem->ana, after);
	rcu_wait();
	n_told = ana_tell(target, subsystem->nqn, before, after, group);
	free(before);
	return n_told;
}

int ana_change(struct target *target, const char *subnqn, unsigned group, uint32_t portal_mask,
	       enum nvme_ana_state state, unsigned *ret_n_told)
{
	struct subsystem *subsystem = find(target, subnqn);
	struct ana *after = ana_with_state(rcu_get(&subsystem->ana), group, portal_mask, state);

	if (!after)
		return -ENOMEM;
	*ret_n_told = publish(target, subsystem, after, group);
	return 0;
}

int ana_change_owner(struct target *target, const char *subnqn, unsigned group,
		     enum ana_owner owner)
{
	struct subsystem *subsystem = find(target, subnqn);
	struct ana *after = ana_with_owner(rcu_get(&subsystem->ana), group, owner);

	if (!after)
		return -ENOMEM;
	(void)publish(target, subsystem, after, group);
	return 0;
}
