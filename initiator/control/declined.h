/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses that discovery does not use again: see volume_discovery.h. Pure. */
#pragma once

#include <stdbool.h>

struct declined;
union addr;

void declined_add(struct declined *declined, const union addr *address);
bool declined_has(const struct declined *declined, const union addr *address);
void declined_remove(struct declined *declined, const union addr *address);
