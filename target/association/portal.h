/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening on portals (the struct is engine/portal.h). Control thread. */
#pragma once

#include "target/engine/portal.h"

/* Control. Makes target->portals from the configuration; nothing listens yet. 0 or
 * -errno. */
int portals_init(struct target *target);
/* Control. Fills a slot. */
void portal_init(struct portal *portal, const struct config_portal *config);
/* Control. Listens on it, or waits for its address: 0. -EADDRINUSE and others are final (said in
 * the log). */
int portal_open(struct portal *portal);
/* Control. Stops listening; connections live on. */
void portal_close(struct portal *portal);
/* Control. Listens on all. 0 if each listens or waits for its address; -EADDRINUSE and
 * others are final (said in the log). */
int portals_open(struct target *target);
/* Control. Stops listening; connections live on. */
void portals_close(struct target *target);
void portals_deinit(struct target *target);

unsigned portals_n_used(const struct target *target);
unsigned portals_n_listening(const struct target *target);
const char *portal_state_name(enum portal_state state); /* "listening", "waiting"... */
