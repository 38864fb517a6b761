/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the hosts that use what a change takes away: a namespace, a subsystem, their own
 * permission. Control thread. */
#pragma once

#include <stdbool.h>

#include "target/config/diff.h"
#include "target/engine/target.h"

/* One host that loses something. */
struct change_user {
	unsigned change; /* index of the change that takes it away */
	char *host;	 /* owned: its NQN */
};

struct change_users {
	struct change_user *items; /* owned; in the order of the changes */
	unsigned n;
};

/* The hosts that are connected now, each once for a change. 0 or -ENOMEM. The caller calls
 * change_users_free in any case. */
int change_users_find(const struct target *target, const struct config_changes *changes,
		      struct change_users *ret_users);
void change_users_free(struct change_users *users);
