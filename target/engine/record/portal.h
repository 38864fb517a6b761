/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Portals: addresses where hosts reach us. A portal whose address is not there yet, for example of
 * an interface that comes up late, is tried again every 4 s. So the daemon may start before the
 * network. target->portals owns them.
 */
#pragma once

#include "target/engine/record/target.h"

enum {
	PORTAL_NAME_MAX = 64,
};

/*
 *     CLOSED ---> LISTENING <---> WAITING       a timer tries to listen again
 *       ^ ^           |              |
 *       | +-----------+--------------+
 *       +---------- DRAINED <--------+---       by rblkctl drain, from any state
 */
enum portal_state {
	PORTAL_CLOSED,
	PORTAL_LISTENING,
	PORTAL_WAITING, /* the address is not on this host, or cannot be listened on now */
	PORTAL_DRAINED, /* on request; its connections end, or have ended */
	PORTAL_STATES,
};

/* Whose place in target->portals this is. */
enum portal_slot {
	PORTAL_FREE,	   /* no portal's; or a removed one's, until its last connection is gone */
	PORTAL_NEW,	   /* that of a portal in a change that is not final yet */
	PORTAL_CONFIGURED, /* that of a portal of the configuration */
	PORTAL_SLOTS,
};

struct portal {
	/* Thread: control; name, address and index do not change while it is listening */
	struct target *target;
	unsigned index; /* bit of subsystem->portal_mask */
	char name[PORTAL_NAME_MAX + 1];
	union addr address;
	enum portal_slot slot;
	struct loop_timer leave_timer, drain_timer; /* while it drains; see drain.c */
	_Atomic enum portal_state state;	    /* discovery reads it on pollers */
	int error;				    /* -errno of the last try */
	struct cm_listener listener;
	struct loop_timer retry;
	struct log_limit refusals;
	uint64_t n_accepted, n_refused;
};

/* Control. */
static inline bool portal_is_used(const struct portal *portal)
{
	return portal->slot != PORTAL_FREE;
}
static inline bool portal_is_drained(const struct portal *portal)
{
	return atomic_load(&portal->state) == PORTAL_DRAINED;
}
