/* SPDX-License-Identifier: BSD-3-Clause */
/* Describes what Flush and FUA mean for a namespace, as text that agrees with VWC. Any thread. */
#pragma once

#include "target/export/snapshot.h"

struct durability {
	const char *cache;  /* where writes stop before they are safe; "none" */
	const char *flush;  /* what Flush does */
	const char *fua;    /* what a write with FUA does */
	const char *blocks; /* of the kind of store: durability_blocks_of */
};

/* A constant, by what the store of the namespace is. */
const struct durability *durability_of(const struct namespace *ns);
/* Why a reader sees each block as one write left it. A constant, by the kind of store. */
const char *durability_blocks_of(const struct namespace *ns);
/* Logs a line for each namespace of the snapshot that is not in `before` (may be NULL). */
void durability_log(const struct snapshot *snapshot, const struct snapshot *before);
