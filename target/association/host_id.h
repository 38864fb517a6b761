/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To which host a host identifier belongs. Reservations know hosts by it alone, so in a subsystem
 * it is that of the host NQN that used it first, as long as that one has a controller there, or is
 * registered with it at a namespace. A host may have many identifiers, and all zeroes is none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire/fabrics.h"

struct controller;
struct target;

enum host_id_owner {
	HOST_ID_OWN, /* or nobody's */
	HOST_ID_CONNECTED_OTHER,
	HOST_ID_REGISTERED_OTHER,
};

/* Control. Who has it, of hosts but this one; then *ret_nqn names that one. Who has not proven its
 * name yet has nothing. */
enum host_id_owner host_id_find_owner(const struct target *target, const char *subnqn,
				      const uint8_t hostid[16], const char *hostnqn,
				      char ret_nqn[NVMF_NQN_MAX + 1]);
/* Control. Ends the association of a host whose identifier turns out to be registered by another,
 * or, once it has proven its name, to be connected. */
void host_id_check(struct controller *controller);
