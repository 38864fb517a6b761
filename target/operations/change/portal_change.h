/* SPDX-License-Identifier: BSD-3-Clause */
/* Portals that come and go while rblkd runs. Control thread. */
#pragma once

#include "target/association/portal.h"

/* Which portal of a new configuration gets which slot of target->portals. Borrowed. */
struct portals_plan {
	const struct target_config *config;
	const uint8_t *slots; /* of config->portals, in their order */
};

/* Chooses the slots: that of the running portal of the same name and address, or a free one. 0, or
 * -EBUSY: connections through removed portals still hold them. */
int portals_plan(const struct target *target, const struct target_config *config,
		 uint8_t ret_slots[PORTALS_MAX]);
/* Closes the listeners that are not in the plan any more, and listens on those that are new. 0, or
 * -errno with one line in why and all as it was before. */
int portals_switch(struct target *target, const struct portals_plan *plan, char *why, size_t n);
/* Undoes that. */
void portals_switch_back(struct target *target, const struct portals_plan *plan);
/* Makes it final. */
void portals_switch_done(struct target *target, const struct portals_plan *plan);
