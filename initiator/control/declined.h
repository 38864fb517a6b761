/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses that discovery does not use again: see volume_discovery.h. Pure. */
#pragma once

#include <stdbool.h>

#include "base/addr.h"

enum {
	DECLINED_MAX = 16,
};

/* Addresses that a user has removed, the oldest first: they are not paths again before they were
 * missing in all logs. */
struct declined {
	union addr addresses[DECLINED_MAX];
	unsigned n;
};

void declined_add(struct declined *declined, const union addr *address);
bool declined_has(const struct declined *declined, const union addr *address);
void declined_remove(struct declined *declined, const union addr *address);
