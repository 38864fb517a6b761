/* SPDX-License-Identifier: BSD-3-Clause */
/* The hosts that a drain, or an ANA state, leaves without a path to a namespace that they use.
 * Control thread. */
#pragma once

#include "target/export/ana.h"
#include "target/operations/change/outlook.h"

/* The change that is about to happen; borrowed. */
struct path_change {
	const struct target *target;
	const char *drained; /* the portals of that name; NULL: none is drained */
	const char *subnqn;  /* its table of ANA groups becomes `ana`; NULL: no table changes */
	const struct ana *ana;
};

/* Whether the host of the association then has no path to a namespace to which it has one now, and
 * which it uses by this association. */
bool path_change_cuts(const struct path_change *change, const struct controller *controller);
