/* SPDX-License-Identifier: BSD-3-Clause */
/* Portals that come and go while rblkd runs. Control thread. */
#pragma once

#include "target/association/portal.h"

/* Gives each portal of a new configuration its slot: that of the running one of the same name and
 * address, or a free one. 0, or -EBUSY: connections through removed portals still hold them. */
int portals_plan(struct target *target, struct target_config *config);
/* Closes the listeners that the configuration does not have any more, and listens on those that are
 * new. 0, or -errno with one line in why and all as it was before. */
int portals_switch(struct target *target, const struct target_config *config, char *why, size_t n);
/* Undoes that. */
void portals_switch_back(struct target *target, const struct target_config *config);
/* Makes it final. */
void portals_switch_done(struct target *target, const struct target_config *config);
