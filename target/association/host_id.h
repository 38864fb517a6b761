/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of a host identifier. Reservations know hosts by it alone. The configuration may bind
 * it to a host NQN, which then has no other one. Else it belongs, within a subsystem, to the host
 * NQN that used it first, as long as that host has a controller there or is registered with it at a
 * namespace. An unbound host may have many identifiers, and all zeroes is none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire/fabrics.h"

struct controller;
struct target;
struct target_config;

enum {
	HOST_ID_WHY = NVMF_NQN_MAX + 160,
};

enum host_id_owner {
	HOST_ID_OWN, /* or without an owner */
	HOST_ID_CONNECTED_OTHER,
	HOST_ID_REGISTERED_OTHER,
	HOST_ID_BOUND_OTHER,	  /* the configuration binds it to another host */
	HOST_ID_BOUND_TO_ANOTHER, /* the configuration binds this host to another identifier */
};

/* A host that uses an identifier at a subsystem. Borrowed. */
struct host_id_claim {
	const struct target_config *config; /* that binds identifiers */
	const char *subnqn, *hostnqn;
	const uint8_t *hostid; /* 16 bytes */
};

/* Control. Finds an owner other than this host, and sets *ret_nqn to its NQN; to the host's own one
 * for the last answer. A host that has not authenticated although it must owns nothing. */
enum host_id_owner host_id_find_owner(const struct target *target,
				      const struct host_id_claim *claim,
				      char ret_nqn[NVMF_NQN_MAX + 1]);
/* Why the host may not have the identifier, for the log; nqn: as found. */
void host_id_explain(enum host_id_owner found, const char *nqn, char ret_why[HOST_ID_WHY]);
/* Control. The configuration may have bound the controller's identifier, or no longer binds it. */
void host_id_note_bound(struct controller *controller);
/* Control. Ends the association of a host if its identifier is not the one that it is bound to,
 * belongs to another host by the configuration, or is registered by another host, or, once it has
 * authenticated, used by another connected one. */
void host_id_check(struct controller *controller);
