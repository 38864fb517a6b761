/* SPDX-License-Identifier: BSD-3-Clause */
/* A snapshot like another one, for a change that no configuration makes. Control thread. */
#pragma once

#include "target/export/snapshot.h"

/* The difference, in one subsystem of the snapshot. Borrowed; the copy takes a reference to each
 * namespace, and owns ana. */
struct snapshot_change {
	const char *subnqn;
	struct namespace *const *namespaces; /* each takes the place of that with its nsid */
	unsigned n;
	struct ana *ana; /* instead of its table */
};

/* Makes a snapshot of the next generation. Namespaces that do not differ are shared. NULL: no
 * memory, and change->ana is still the caller's. */
struct snapshot *snapshot_copy(const struct snapshot *before, const struct snapshot_change *change);
