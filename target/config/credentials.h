/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of hosts: read from files when a snapshot is built, part of it, and wiped with it. Any
 * thread may look one up under RCU; a caller that needs a key for longer copies it, and wipes the
 * copy.
 */
#pragma once

#include "target/config/config.h"
#include "transport/auth_key.h"

struct credentials {
	char hostnqn[NVMF_NQN_MAX + 1];
	/* What the host proves itself with; while it is being changed there are two. */
	struct auth_key keys[AUTH_KEYS];
	unsigned n_keys;
	struct auth_key ctrl_key; /* what we prove ourselves with; n is 0: we cannot */
	uint8_t hashes[NVMF_HASHES], dhgroups[NVMF_DH_GROUPS]; /* in order of preference */
	unsigned n_hashes, n_dhgroups;
};

struct credentials_list {
	struct credentials *items; /* owned: auth_alloc */
	unsigned n;
};

/* Control thread. Reads the keys of all hosts that have some; mistakes go to conf. Release in any
 * case. 0, -EINVAL or -ENOMEM. */
int credentials_load(const struct target_config *config, struct conf *conf,
		     struct credentials_list *ret_list);
void credentials_release(struct credentials_list *list);
/* NULL: this host need not prove its identity. */
const struct credentials *credentials_find(const struct credentials_list *list,
					   const char *hostnqn);
