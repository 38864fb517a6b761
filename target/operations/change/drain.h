/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends connections in order: all of them at the end, or those through one portal. Control. */
#pragma once

#include "target/association/portal.h"

enum {
	LEAVE_S = 5, /* hosts that follow the discovery log leave by themselves until then */
	DRAIN_S = 5, /* connections that have not finished by then are killed */
};

/* Stops listening; each connection finishes its commands and is disconnected: at once, or after
 * LEAVE_S where its host follows the discovery log. */
void portal_drain(struct portal *portal);
/* Listens again. 0 or -errno (logged). */
int portal_undrain(struct portal *portal);
/* A queue was freed, or draining begins: finishes the queues whose turn it is. */
void drain_continue(struct target *target);
