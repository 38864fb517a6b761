/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening on portals (the struct is in engine/portal.h). Control thread. */
#pragma once

#include "target/engine/portal.h"

/* Control. Creates target->portals from the configuration; none listens yet. 0 or -ENOMEM. */
int portals_init(struct target *target);
/* Control. Fills a slot. */
void portal_init(struct portal *portal, const struct config_portal *config);
/* Control. 0: it listens, or waits for its address. -EADDRINUSE and others are final (logged). */
int portal_open(struct portal *portal);
/* Control. Stops listening; connections stay. */
void portal_close(struct portal *portal);
/* Control. Opens all. 0: each listens or waits for its address. -EADDRINUSE and others are final
 * (logged). */
int portals_open(struct target *target);
/* Control. Stops listening; connections stay. */
void portals_close(struct target *target);
void portals_deinit(struct target *target);

unsigned portals_n_used(const struct target *target);
unsigned portals_n_listening(const struct target *target);
const char *portal_state_name(enum portal_state state); /* "listening", "waiting"... */
