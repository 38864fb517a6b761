/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access (Base 2.0, 8.1): the namespaces of a subsystem belong to groups, and
 * each group has a state through each portal. A subsystem without groups in the configuration has
 * no table: it speaks no ANA.
 *
 * The table is immutable once published: a change is another table, and a pointer that is swapped
 * (target/operations/change/ana_change.c). Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "target/export/subsystem.h"
#include "transport/wire/nvme.h"

struct config_subsystem;
struct target_config;

enum {
	ANA_TRANSITION_S = 10, /* ANATT: no change takes longer */
};

/* A group seen through one portal. */
struct ana_view {
	uint8_t state;	    /* enum nvme_ana_state */
	uint8_t configured; /* what the file says; 0: it has no such portal (any more) */
	uint64_t changed;   /* the table's count then */
};

struct ana_group {
	uint32_t id;
	unsigned n_nsids;
	struct ana_view views[PORTALS_MAX]; /* by portal index */
};

struct ana {
	uint64_t n_changes[PORTALS_MAX]; /* of what the log page says, by portal index */
	unsigned n_groups;
	uint8_t group_of[NSID_MAX + 1];		 /* index by nsid; ANA_GROUPS_MAX: none */
	struct ana_group groups[ANA_GROUPS_MAX]; /* by id */
};

/* Of an index into config_ana_states. */
enum nvme_ana_state ana_state_of_choice(unsigned choice);

/*
 * The table for a subsystem of a configuration; slots: index of each of its portals. What was set
 * since the table before (may be NULL) was read from its file stays, where the file says the same
 * as then. To be freed with free(). 0 with *ret_ana NULL when there are no groups; or -ENOMEM.
 */
int ana_new(const struct target_config *config, const uint8_t *slots,
	    const struct config_subsystem *subsystem, const struct ana *before,
	    struct ana **ret_ana);
/* The same table with the state of a group set through some portals (bits). NULL without memory. */
struct ana *ana_with_state(const struct ana *ana, unsigned group, uint32_t portal_mask,
			   enum nvme_ana_state state);
/* Index of the group with that id; ANA_GROUPS_MAX: there is none. */
unsigned ana_find(const struct ana *ana, uint64_t id);

/* Whether a host that came through that portal must read the log page anew: the state or the group
 * of a namespace that is in both is another. Either may be NULL. */
bool ana_is_news(const struct ana *before, const struct ana *after, unsigned portal);

/* The group of a namespace, NULL if it has none. */
static inline const struct ana_group *ana_group_of(const struct ana *ana, uint32_t nsid)
{
	unsigned i = nsid <= NSID_MAX ? ana->group_of[nsid] : (unsigned)ANA_GROUPS_MAX;

	return i < ANA_GROUPS_MAX ? &ana->groups[i] : NULL;
}
/* Of a namespace through a portal: NVME_OK, or the status of a command that needs it. ana may be
 * NULL. Never with DNR: another path may serve it. */
enum nvme_status ana_check(const struct ana *ana, uint32_t nsid, unsigned portal);

/*
 * Log page 0Ch as seen through a portal: fills length bytes at data, which are zero, from offset
 * on. Of groups that have namespaces; without their NSIDs if they are not wanted. Returns the
 * length of the page; nothing is filled from an offset beyond it.
 */
uint64_t ana_fill_log(const struct ana *ana, unsigned portal, bool wants_nsids, uint64_t offset,
		      void *data, uint32_t length);
