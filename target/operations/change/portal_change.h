/* SPDX-License-Identifier: BSD-3-Clause */
/* Portals that are added and removed while rblkd runs. Control thread. */
#pragma once

#include "target/association/portal.h"

/* The slot of target->portals for each portal of a new configuration. Borrowed. */
struct portals_plan {
	const struct target_config *config;
	const uint8_t *slots; /* of config->portals, in their order */
};

/* Chooses the slots: that of the running portal of the same name and address, or a free one. 0; or
 * -EBUSY: connections through removed portals still hold the slots. */
int portals_plan(const struct target *target, const struct target_config *config,
		 uint8_t ret_slots[PORTALS_MAX]);
/* Closes the listeners that are not in the plan, and opens the new ones. 0; or -errno and
 * *error, and everything is as before. */
int portals_switch(struct target *target, const struct portals_plan *plan, struct error *error);
/* Undoes portals_switch. */
void portals_switch_back(struct target *target, const struct portals_plan *plan);
/* Makes it final. */
void portals_switch_done(struct target *target, const struct portals_plan *plan);
