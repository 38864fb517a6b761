/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of a host identifier. Reservations know hosts by it alone. So within a subsystem it
 * belongs to the host NQN that used it first, as long as that host has a controller there or is
 * registered with it at a namespace. A host may have many identifiers, and all zeroes is none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire/fabrics.h"

struct controller;
struct target;

enum host_id_owner {
	HOST_ID_OWN, /* or without an owner */
	HOST_ID_CONNECTED_OTHER,
	HOST_ID_REGISTERED_OTHER,
};

/* Control. Finds an owner other than this host, and sets *ret_nqn to its NQN. A host that has not
 * authenticated although it must owns nothing. */
enum host_id_owner host_id_find_owner(const struct target *target, const char *subnqn,
				      const uint8_t hostid[16], const char *hostnqn,
				      char ret_nqn[NVMF_NQN_MAX + 1]);
/* Control. Ends the association of a host if its identifier is registered by another host, or, once
 * it has authenticated, used by another connected one. */
void host_id_check(struct controller *controller);
