/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes other objects of a group's namespaces what hosts see. Control thread. */
#pragma once

#include "target/export/ana.h"
#include "target/operations/ownership/group.h"

/* The namespaces, a list of n, that take the places of those with their nsid; borrowed. */
struct publication {
	struct namespace *const *namespaces;
	unsigned n;
	enum ana_owner owner; /* of the group from then on */
};

/* Pollers see one pointer change. Hosts are notified, and what was seen before is retired. 0, and
 * the snapshot holds the namespaces; or -ENOMEM, and they are the caller's. */
int group_publish(struct group *group, const struct publication *publication);
