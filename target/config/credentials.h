/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of hosts. Control reads them from files when it builds a snapshot; the snapshot owns
 * them, and they are wiped with it. Any thread may look one up under RCU. A caller that needs a key
 * for longer copies it, and wipes the copy.
 */
#pragma once

#include "target/config/target_config.h"
#include "transport/auth_key.h"

struct credentials {
	char hostnqn[NVMF_NQN_MAX + 1];
	/* The keys that the host may prove; two while it is being changed. */
	struct auth_key keys[AUTH_KEYS];
	unsigned n_keys;
	struct auth_key ctrl_key; /* our own proof to the host; n is 0: none */
	uint8_t hashes[NVMF_HASHES], dhgroups[NVMF_DH_GROUPS]; /* in order of preference */
	unsigned n_hashes, n_dhgroups;
};

struct credentials_list {
	struct credentials *items; /* owned: auth_alloc */
	unsigned n;
};

/* Control thread. Reads the keys of all hosts that have some; errors go to conf. The caller
 * releases the list in any case. 0, -EINVAL or -ENOMEM. */
int credentials_load(const struct target_config *config, struct conf *conf,
		     struct credentials_list *ret_list);
/* 0 or -ENOMEM. The caller releases the copy in any case. */
int credentials_copy(const struct credentials_list *list, struct credentials_list *ret_copy);
void credentials_release(struct credentials_list *list);
/* Whether the host may prove the secret of that mark (auth_key_mark). */
bool credentials_accept(const struct credentials *credentials, uint64_t mark);
/* The mark of our own secret; 0: there is none. */
uint64_t credentials_ctrl_mark(const struct credentials *credentials);
/* Whether both hold the same secrets, in any order. */
bool credentials_are_same(const struct credentials *a, const struct credentials *b);
/* NULL: this host need not prove its identity. */
const struct credentials *credentials_find(const struct credentials_list *list,
					   const char *hostnqn);
