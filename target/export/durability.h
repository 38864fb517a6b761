/* SPDX-License-Identifier: BSD-3-Clause */
/* What Flush and FUA mean for a namespace, in words: the same that VWC tells hosts. Any thread. */
#pragma once

#include "target/export/snapshot.h"

struct durability {
	const char *cache; /* that writes stop in before they are safe; "none" */
	const char *flush; /* what Flush does */
	const char *fua;   /* what a write with FUA does */
};

const struct durability *durability_of(const struct namespace *ns);
/* A line of the log for each namespace that is in the snapshot and not in the one before, which may
 * be NULL. */
void durability_log(const struct snapshot *snapshot, const struct snapshot *before);
