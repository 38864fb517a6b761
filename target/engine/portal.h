/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Portals: addresses where hosts reach us. A portal whose address is not there yet, for example of
 * an interface that comes up late, is tried again every 4 s. So the daemon may start before the
 * network. target->portals owns them.
 */
#pragma once

#include "target/engine/target.h"

enum {
	PORTAL_NAME_MAX = 64,
};

enum portal_state {
	PORTAL_CLOSED,
	PORTAL_LISTENING,
	PORTAL_WAITING, /* the address is not on this host; a timer retries */
	PORTAL_DRAINED, /* on request; no retry */
	PORTAL_FAILED,	/* cannot listen for another reason, see error; a timer retries */
};

struct portal {
	/* Thread: control; name, address and index do not change while it is listening */
	struct target *target;
	unsigned index; /* bit of subsystem->portal_mask */
	char name[PORTAL_NAME_MAX + 1];
	union addr address;
	/* in the configuration; else the slot is free, or becomes free with its last connection */
	bool is_used;
	bool is_draining; /* draining or drained, by rblkctl drain */
	struct loop_timer drain_timer;
	bool is_new;		/* part of a change that is not final yet */
	_Atomic unsigned state; /* enum portal_state; discovery reads it on pollers */
	int error;		/* -errno of the last try */
	bool is_said;		/* the reason is in the log */
	struct cm_listener listener;
	struct loop_timer retry;
	struct log_limit refusals;
	uint64_t n_accepted, n_refused;
};
