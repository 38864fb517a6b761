/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Portals: addresses where hosts reach us. A portal whose address is not there yet (an
 * interface that comes up late) is tried again every 4 s, so the daemon may start before
 * the network.
 */
#pragma once

#include "target/engine/target.h"

enum {
	PORTAL_NAME_MAX = 64,
};

enum portal_state {
	PORTAL_CLOSED,
	PORTAL_LISTENING,
	PORTAL_WAITING, /* the address is not on this host; tried again by timer */
	PORTAL_DRAINED, /* on request; not tried again */
	PORTAL_FAILED,	/* cannot listen for another reason, see error; tried again too */
};

struct portal {
	/* Thread: control; name, address and index do not change while it is listening */
	struct target *target;
	unsigned index; /* bit of subsystem->portal_mask */
	char name[PORTAL_NAME_MAX + 1];
	union addr address;
	bool is_used;	  /* stands in the configuration; else the slot is free, or will be with
		       * the last of its connections */
	bool is_draining; /* or drained: rblkctl drain */
	struct loop_timer drain_timer;
	bool is_new;		/* of a change that is not final yet */
	_Atomic unsigned state; /* enum portal_state; discovery reads it on pollers */
	int error;		/* -errno of the last try */
	bool is_said;		/* its reason is in the log */
	struct cm_listener listener;
	struct loop_timer retry;
	struct log_limit refusals;
	uint64_t n_accepted, n_refused;
};
