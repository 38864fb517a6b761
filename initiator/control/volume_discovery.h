/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The paths of a volume by persistent discovery; see volume_discovery.c. Control loop only.
 */
#pragma once

#include <stdbool.h>

#include "base/addr.h"
#include "base/loop.h"
#include "initiator/control/volume_paths.h"

struct discovery_service;
struct path;
struct volume;

enum {
	DECLINED_MAX = 16,
};

/* Addresses that a user has removed, the oldest first: they are not paths again before they were
 * missing in all logs. */
struct declined {
	union addr addresses[DECLINED_MAX];
	unsigned n;
};

/* Of a volume. */
struct volume_discovery {
	/* The first is asked by an address of the user's; the others are referred to. Owned; NULL:
	 * none. One that ends stays until it is freed. */
	struct discovery_service *services[VOLUME_SERVICES_MAX];
	struct loop_timer retry; /* something could not be done at the last look */
	struct declined declined;
	bool has_warned; /* that a path is left out, since the last that was added */
};

/* The volume serves for the first time: begins, if config wants it. */
void volume_discovery_begin(struct volume *volume);
/* Ends all services; then reconnect_look_whether_over, not from inside. */
void volume_discovery_end(struct volume *volume);
/* Up to VOLUME_SERVICES_MAX; returns how many there are. */
unsigned volume_discovery_get(const struct volume *volume, struct volume_service_status *ret);

/* No service is left. */
static inline bool volume_discovery_is_over(const struct volume_discovery *discovery)
{
	for (unsigned i = 0; i < VOLUME_SERVICES_MAX; i++)
		if (discovery->services[i])
			return false;
	return true;
}
