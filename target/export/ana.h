/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access (Base 2.0, 8.1): the namespaces of a subsystem belong to groups, and
 * each group has a state through each portal. A subsystem without groups in the configuration has
 * no table and does not support ANA.
 *
 * A published table is immutable: a change publishes a new table by swapping a pointer
 * (target/operations/change/ana_change.c). The subsystem owns its table. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "target/export/subsystem.h"
#include "transport/wire/nvme.h"

struct config_subsystem;
struct target_config;

enum {
	ANA_TRANSITION_S = 10, /* ANATT: the limit of a change, in seconds */
};

/* A group seen through one portal. */
struct ana_view {
	uint8_t state; /* enum nvme_ana_state */
	/* the configured state; 0: the configuration has no such portal any more */
	uint8_t configured;
	uint64_t changed; /* the table's count at the last change */
};

/* Whose the stores of a group are. */
enum ana_owner {
	ANA_OWNER_ALWAYS, /* this rblkd's, as the configuration has it */
	ANA_OWNER_LOCK,	  /* this rblkd's, while it has their locks */
	ANA_OWNER_OTHER,  /* of the rblkd that has their locks: the group is inaccessible here */
};

struct ana_group {
	uint32_t id;
	uint8_t owner; /* enum ana_owner */
	unsigned n_nsids;
	struct ana_view views[PORTALS_MAX]; /* by portal index */
};

struct ana {
	uint64_t n_changes[PORTALS_MAX]; /* of the log page, by portal index */
	unsigned n_groups;
	uint8_t group_of[NSID_MAX + 1];		 /* index by nsid; ANA_GROUPS_MAX: none */
	struct ana_group groups[ANA_GROUPS_MAX]; /* by id */
};

/* The state for an index into config_ana_states. */
enum nvme_ana_state ana_state_of_choice(unsigned choice);

/*
 * Makes the table for a subsystem of a configuration; slots: the index of each portal. A state that
 * an administrator set in `before` (may be NULL) stays, if the configuration has the same state as
 * before. The caller frees it with free(). 0, with *ret_ana NULL without groups; or -ENOMEM.
 */
int ana_new(const struct target_config *config, const uint8_t *slots,
	    const struct config_subsystem *subsystem, const struct ana *before,
	    struct ana **ret_ana);
/* A copy of the table with this state of a group through some portals (bits). NULL: no memory. */
struct ana *ana_with_state(const struct ana *ana, unsigned group, uint32_t portal_mask,
			   enum nvme_ana_state state);
/* A copy of the table with this owner of a group, and its states through all portals as they follow
 * from that: the configured ones, or inaccessible. NULL: no memory. */
struct ana *ana_with_owner(const struct ana *ana, unsigned group, enum ana_owner owner);
/* A copy. NULL: no memory. */
struct ana *ana_copy(const struct ana *ana);
/* Index of the group with that id; ANA_GROUPS_MAX: none. */
unsigned ana_find(const struct ana *ana, uint64_t id);

/* Whether hosts connected through that portal must read the log page again: a namespace of both
 * tables has another state or group. Either may be NULL. */
bool ana_is_news(const struct ana *before, const struct ana *after, unsigned portal);

/* The group of a namespace; NULL: none. */
static inline const struct ana_group *ana_group_of(const struct ana *ana, uint32_t nsid)
{
	unsigned i = nsid <= NSID_MAX ? ana->group_of[nsid] : (unsigned)ANA_GROUPS_MAX;

	return i < ANA_GROUPS_MAX ? &ana->groups[i] : NULL;
}
/* Whether each namespace belongs to a group with an owner by lock. Under RCU, or control. */
bool ana_has_owners(const struct subsystem *subsystem);
/* Checks a command for a namespace through a portal: NVME_OK, or the status to answer. ana may be
 * NULL. Never with DNR, because another path may serve the command. */
enum nvme_status ana_check(const struct ana *ana, uint32_t nsid, unsigned portal);

/*
 * Log page 0Ch as seen through a portal: fills `length` zeroed bytes at data, from `offset` of the
 * page on. The page has the groups with namespaces, and their NSIDs if wants_nsids. Returns the
 * length of the page; fills nothing beyond it.
 */
uint64_t ana_fill_log(const struct ana *ana, unsigned portal, bool wants_nsids, uint64_t offset,
		      void *data, uint32_t length);
