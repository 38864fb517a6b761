/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of ANA groups, and the log page that hosts read from it; see ana.h. The control thread
 * makes tables, and pollers read them under RCU.
 *
 * Each change of the log page, as seen through a portal, increments a count. A host that reads the
 * page in pieces compares these counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/rcu.h"
#include "target/export/ana.h"
#include "target/config/config.h"

static_assert((unsigned)ANA_GROUPS_MAX <= UINT8_MAX, "struct ana, group_of");

enum nvme_ana_state ana_state_of_choice(unsigned choice)
{
	static const enum nvme_ana_state states[] = {
		NVME_ANA_STATE_OPTIMIZED, NVME_ANA_STATE_NON_OPTIMIZED, NVME_ANA_STATE_INACCESSIBLE,
		NVME_ANA_STATE_PERSISTENT_LOSS, NVME_ANA_STATE_CHANGE};

	check(choice < ARRAY_LEN(states));
	return states[choice];
}

unsigned ana_find(const struct ana *ana, uint64_t id)
{
	for (unsigned i = 0; i < ana->n_groups; i++)
		if (ana->groups[i].id == id)
			return i;
	return ANA_GROUPS_MAX;
}

/* ---- building a table ----------------------------------------------------------------------- */

static int compare_groups(const void *a, const void *b)
{
	const struct ana_group *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Without an owner here a group is inaccessible; an administrator's word changes only groups that
 * are always of this rblkd. */
static uint8_t state_by_owner(const struct ana_group *group, const struct ana_view *view)
{
	if (group->owner == ANA_OWNER_OTHER)
		return NVME_ANA_STATE_INACCESSIBLE;
	if (group->owner == ANA_OWNER_LOCK && view->configured)
		return view->configured;
	return view->state;
}

/* The state in the configuration for the group and that portal. */
static enum nvme_ana_state configured_state(const struct config_ana_group *config,
					    const char *portal)
{
	const struct config_ana_portal *portals = config->portals.items;

	for (unsigned i = 0; i < config->portals.n; i++)
		if (!strcmp(portals[i].portal, portal))
			return ana_state_of_choice(portals[i].state);
	return ana_state_of_choice(config->state);
}

static void set_views(const struct target_config *config, const uint8_t *slots,
		      const struct config_ana_group *from, struct ana_group *group)
{
	const struct config_portal *portals = config->portals.items;

	group->id = (uint32_t)from->id;
	group->owner = from->owner == CONFIG_OWNER_LOCK ? ANA_OWNER_OTHER : ANA_OWNER_ALWAYS;
	for (unsigned i = 0; i < PORTALS_MAX; i++)
		group->views[i].state = (uint8_t)ana_state_of_choice(from->state);
	for (unsigned i = 0; i < config->portals.n; i++) {
		struct ana_view *view = &group->views[slots[i]];

		check(slots[i] < PORTALS_MAX);
		view->state = view->configured = (uint8_t)configured_state(from, portals[i].name);
	}
	for (unsigned i = 0; i < PORTALS_MAX; i++)
		group->views[i].state = state_by_owner(group, &group->views[i]);
}

static void add_members(const struct config_subsystem *config, struct ana *ana)
{
	const struct config_namespace *namespaces = config->namespaces.items;

	memset(ana->group_of, ANA_GROUPS_MAX, sizeof(ana->group_of));
	for (unsigned i = 0; i < config->namespaces.n; i++) {
		unsigned group = ana_find(ana, namespaces[i].ana_group);

		if (group == ANA_GROUPS_MAX)
			continue;
		check(namespaces[i].nsid <= NSID_MAX);
		ana->group_of[namespaces[i].nsid] = (uint8_t)group;
		ana->groups[group].n_nsids++;
	}
}

static bool is_member(const struct ana *ana, uint32_t nsid, uint32_t id)
{
	const struct ana_group *group = ana_group_of(ana, nsid);

	return group && group->id == id;
}

static bool has_same_members(const struct ana *a, const struct ana *b, uint32_t id)
{
	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++)
		if (is_member(a, nsid, id) != is_member(b, nsid, id))
			return false;
	return true;
}

/* Copies from the previous table the states that an administrator set, and the counts. */
static void take_over(struct ana *ana, const struct ana *before)
{
	bool is_other[PORTALS_MAX] = {false};

	for (unsigned i = 0; i < ana->n_groups; i++) {
		struct ana_group *group = &ana->groups[i];
		unsigned at = ana_find(before, group->id);
		bool is_same = at != ANA_GROUPS_MAX && has_same_members(before, ana, group->id);

		if (at != ANA_GROUPS_MAX && group->owner != ANA_OWNER_ALWAYS &&
		    before->groups[at].owner != ANA_OWNER_ALWAYS)
			group->owner = before->groups[at].owner;
		for (unsigned portal = 0; portal < PORTALS_MAX; portal++) {
			struct ana_view *view = &group->views[portal];
			const struct ana_view *old = at == ANA_GROUPS_MAX
							     ? NULL
							     : &before->groups[at].views[portal];

			/* Only old connections use a portal that was removed. */
			if (old && (!view->configured || view->configured == old->configured))
				view->state = old->state;
			view->state = state_by_owner(group, view);
			view->changed = old ? old->changed : 0;
			if (is_same && old->state == view->state)
				continue;
			view->changed = before->n_changes[portal] + 1;
			is_other[portal] = true;
		}
	}
	for (unsigned portal = 0; portal < PORTALS_MAX; portal++)
		ana->n_changes[portal] = before->n_changes[portal] +
					 (is_other[portal] || ana->n_groups != before->n_groups);
}

int ana_new(const struct target_config *config, const uint8_t *slots,
	    const struct config_subsystem *subsystem, const struct ana *before,
	    struct ana **ret_ana)
{
	const struct config_ana_group *groups = subsystem->ana_groups.items;
	struct ana *ana;

	*ret_ana = NULL;
	if (!subsystem->ana_groups.n)
		return 0;
	check(subsystem->ana_groups.n <= ANA_GROUPS_MAX); /* config/schema.c */
	ana = calloc(1, sizeof(*ana));
	if (!ana)
		return -ENOMEM;
	for (unsigned i = 0; i < subsystem->ana_groups.n; i++)
		set_views(config, slots, &groups[i], &ana->groups[ana->n_groups++]);
	qsort(ana->groups, ana->n_groups, sizeof(*ana->groups), compare_groups);
	add_members(subsystem, ana);
	if (before)
		take_over(ana, before);
	*ret_ana = ana;
	return 0;
}

struct ana *ana_copy(const struct ana *ana)
{
	struct ana *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *ana;
	return copy;
}

static void set_state(struct ana *ana, unsigned group, unsigned portal, uint8_t state)
{
	struct ana_view *view = &ana->groups[group].views[portal];

	if (view->state == state)
		return;
	view->state = state;
	view->changed = ++ana->n_changes[portal];
}

struct ana *ana_with_state(const struct ana *ana, unsigned group, uint32_t portal_mask,
			   enum nvme_ana_state state)
{
	struct ana *copy = ana_copy(ana);

	check(group < ana->n_groups);
	for (unsigned portal = 0; copy && portal < PORTALS_MAX; portal++)
		if (portal_mask >> portal & 1)
			set_state(copy, group, portal, (uint8_t)state);
	return copy;
}

struct ana *ana_with_owner(const struct ana *ana, unsigned group, enum ana_owner owner)
{
	struct ana *copy = ana_copy(ana);

	check(group < ana->n_groups && ana->groups[group].owner != ANA_OWNER_ALWAYS);
	if (!copy)
		return NULL;
	copy->groups[group].owner = (uint8_t)owner;
	for (unsigned portal = 0; portal < PORTALS_MAX; portal++)
		set_state(copy, group, portal,
			  state_by_owner(&copy->groups[group], &copy->groups[group].views[portal]));
	return copy;
}

bool ana_is_news(const struct ana *before, const struct ana *after, unsigned portal)
{
	for (uint32_t nsid = 1; before && after && nsid <= NSID_MAX; nsid++) {
		const struct ana_group *a = ana_group_of(before, nsid);
		const struct ana_group *b = ana_group_of(after, nsid);

		if (a && b && (a->id != b->id || a->views[portal].state != b->views[portal].state))
			return true;
	}
	return false;
}

/* ---- commands ------------------------------------------------------------------------------- */

enum nvme_status ana_check(const struct ana *ana, uint32_t nsid, unsigned portal)
{
	const struct ana_group *group = ana ? ana_group_of(ana, nsid) : NULL;

	if (!group)
		return NVME_OK;
	switch ((enum nvme_ana_state)group->views[portal].state) {
	case NVME_ANA_STATE_OPTIMIZED:
	case NVME_ANA_STATE_NON_OPTIMIZED:
		return NVME_OK;
	case NVME_ANA_STATE_INACCESSIBLE:
		return NVME_ANA_INACCESSIBLE;
	case NVME_ANA_STATE_PERSISTENT_LOSS:
		return NVME_ANA_PERSISTENT_LOSS;
	case NVME_ANA_STATE_CHANGE:
		return NVME_ANA_TRANSITION;
	}
	return NVME_OK;
}

/* ---- the log page --------------------------------------------------------------------------- */

/* The part of the page that the host asked for, and the length of the page so far. */
struct writer {
	uint8_t *data;
	uint64_t offset;
	uint32_t length;
	uint64_t at;
};

static void put(struct writer *w, const void *piece, size_t n)
{
	uint64_t from = MAX(w->at, w->offset);
	uint64_t to = MIN(w->at + n, w->offset + w->length);

	if (from < to)
		memcpy(w->data + (from - w->offset), (const uint8_t *)piece + (from - w->at),
		       to - from);
	w->at += n;
}

static void put_nsids(struct writer *w, const struct ana *ana, unsigned group)
{
	for (uint32_t nsid = 1; nsid <= NSID_MAX; nsid++) {
		le32 wire = put_le32(nsid);

		if (ana->group_of[nsid] == group)
			put(w, &wire, sizeof(wire));
	}
}

static unsigned count_groups(const struct ana *ana)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ana->n_groups; i++)
		n += ana->groups[i].n_nsids != 0;
	return n;
}

uint64_t ana_fill_log(const struct ana *ana, unsigned portal, bool wants_nsids, uint64_t offset,
		      void *data, uint32_t length)
{
	/* The page is never that long, so the sums below cannot wrap. */
	struct writer w = {.data = data, .offset = MIN(offset, UINT32_MAX), .length = length};
	struct nvme_ana_log header = {
		.chgcnt = put_le64(ana->n_changes[portal]),
		.ngrps = put_le16((uint16_t)count_groups(ana)),
	};

	check(portal < PORTALS_MAX);
	put(&w, &header, sizeof(header));
	for (unsigned i = 0; i < ana->n_groups; i++) {
		const struct ana_group *group = &ana->groups[i];
		struct nvme_ana_group descriptor = {
			.grpid = put_le32(group->id),
			.nnsids = put_le32(wants_nsids ? group->n_nsids : 0),
			.chgcnt = put_le64(group->views[portal].changed),
			.state = group->views[portal].state,
		};

		if (!group->n_nsids)
			continue;
		put(&w, &descriptor, sizeof(descriptor));
		if (wants_nsids)
			put_nsids(&w, ana, i);
	}
	return w.at;
}

bool ana_has_owners(const struct subsystem *subsystem)
{
	const struct ana *ana = rcu_get(&subsystem->ana);

	for (unsigned i = 0; i < subsystem->n_namespaces; i++) {
		uint32_t nsid = subsystem->namespaces[i]->nsid;
		const struct ana_group *group = ana ? ana_group_of(ana, nsid) : NULL;

		if (!group || group->owner == ANA_OWNER_ALWAYS)
			return false;
	}
	return subsystem->n_namespaces;
}
