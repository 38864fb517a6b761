/* SPDX-License-Identifier: BSD-3-Clause */
/* Letting connections go in order: all of them at the end, or those through one portal. Control. */
#pragma once

#include "target/association/portal.h"

enum {
	DRAIN_S = 5, /* what has not finished by then is disconnected */
};

/* Stops listening; each connection finishes the commands it has and is disconnected. */
void portal_drain(struct portal *portal);
/* Listens again. 0 or -errno (said in the log). */
int portal_undrain(struct portal *portal);
/* A queue was freed, or draining begins: whose turn is it? */
void drain_continue(struct target *target);
