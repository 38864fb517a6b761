/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening on portals (the struct is in engine/record/portal.h). Control thread. */
#pragma once

#include "target/engine/record/portal.h"

/* Control. Creates target->portals from the configuration; none listens yet. 0 or -ENOMEM. */
int portals_init(struct target *target);
/* Control. Fills a free slot, which becomes that of a new or configured portal. */
void portal_init(struct portal *portal, const struct config_portal *config, enum portal_slot slot);
/* Control. Moves the slot from new to configured, or frees it. */
void portal_set_slot(struct portal *portal, enum portal_slot slot);
/* Control. 0: it listens, or waits for its address. -EADDRINUSE and others are final (logged). */
int portal_open(struct portal *portal);
/* Control. Stops listening; connections stay. A drained portal stays drained. */
void portal_close(struct portal *portal);
/* Control. The same, and it is drained from now on, until portal_reopen: as portal_open. */
void portal_close_drained(struct portal *portal);
int portal_reopen(struct portal *portal);
/* Control. Its connections are not ended any more because it was drained. */
void portal_stop_drain(struct portal *portal);
/* Control. Registers buffers with the devices at the portals' addresses, where perhaps another
 * rblkd still listens. A failure here repeats, and ends the program, when they are opened. */
void portals_prepare(struct target *target);
/* Control. Opens all that are closed. 0: each listens or waits for its address. -EADDRINUSE and
 * others are final (logged). */
int portals_open(struct target *target);
/* Control. Stops listening; connections stay. */
void portals_close(struct target *target);
/* Control. Once they are closed; accepts none. */
void portals_deinit(struct target *target);

/* Control. Portals of the configuration; those of them that listen. */
unsigned portals_n_used(const struct target *target);
unsigned portals_n_listening(const struct target *target);
/* Which machines reach a portal that listens on an address of the network. */
enum portal_reach {
	PORTAL_FOR_ALL,	      /* or it does not listen, or is meant for this machine */
	PORTAL_WITHOUT_ROCE,  /* this one only: softrdma without RoCE */
	PORTAL_IS_LINK_LOCAL, /* this one only: softrdma's RoCE knows no scope of an address */
};

/* Control. */
enum portal_reach portal_reach(const struct portal *portal);
const char *portal_state_name(enum portal_state state); /* "listening", "waiting"... */
