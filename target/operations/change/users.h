/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the hosts that lose what they use by a change: a namespace, or their access. Control
 * thread. */
#pragma once

#include <stdbool.h>

#include "target/config/diff.h"
#include "target/operations/change/outlook.h"

/* One host that loses something. */
struct change_user {
	unsigned change; /* index of the change that takes it away */
	enum loss loss;
	char *host;   /* owned: its NQN */
	char *object; /* owned: "namespace NQN/1", "subsystem NQN", "portal NAME" */
};

struct change_users {
	struct change_user *items; /* owned; in the order of the associations */
	unsigned n;
};

/* Why the host loses the object, where that is not its removal; "" otherwise. For people. */
const char *change_user_reason(const struct change_user *user);
/* The hosts that are connected now, each once for a change and an object. A loss that no change
 * explains is added to the changes. 0 or -ENOMEM. The caller calls change_users_free in any
 * case. */
int change_users_find(const struct outlook *outlook, struct config_changes *changes,
		      struct change_users *ret_users);
/* Once the new namespaces are open: adds the hosts whose identifier another host has registered at
 * one of them, which ends their associations. 0 or -ENOMEM. */
int change_users_add_registered(const struct outlook *outlook, const struct snapshot *after,
				struct config_changes *changes, struct change_users *users);
void change_users_free(struct change_users *users);
