/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends connections in order: all of them at the end, or those through one portal. Control. */
#pragma once

#include "target/association/portal.h"

enum {
	DRAIN_S = 5, /* connections that have not finished by then are killed */
};

/* Stops listening; each connection finishes its commands and is disconnected. */
void portal_drain(struct portal *portal);
/* Listens again. 0 or -errno (logged). */
int portal_undrain(struct portal *portal);
/* A queue was freed, or draining begins: finishes the queues whose turn it is. */
void drain_continue(struct target *target);
