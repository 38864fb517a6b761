/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation, references and identity of guards. Control thread, except as guard.h states. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "target/export/guard/guard_impl.h"
#include "transport/wire/fabrics.h"

/* Control. One reference. store: borrowed; NULL: nothing is saved. NULL: no memory. */
struct guard *guard_new(const uuid_t uuid, struct record_store *store, bool is_volatile);
void guard_ref(struct guard *guard);
/* Control. The last reference needs that no command is left. Accepts NULL. */
void guard_unref(struct guard *guard);

/* Any thread. Whether another host is registered with this identifier; *ret_nqn is its NQN. */
bool guard_is_of_other(struct guard *guard, const uint8_t hostid[16], const char *hostnqn,
		       char ret_nqn[NVMF_NQN_MAX + 1]);

/* Any thread, during its turn or before the first command arrives. */
void guard_set_flag(struct guard *guard, enum guard_flag flag, bool is_set);
