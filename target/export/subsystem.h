/* SPDX-License-Identifier: BSD-3-Clause */
/* A subsystem, as pollers see it: what hosts connect to. Owner: a snapshot (snapshot.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "target/config/credentials.h"
#include "target/export/namespace.h"
#include "transport/wire/fabrics.h"

struct ana;
struct health_record;

struct subsystem {
	/* Thread: control builds it. Immutable once published, except for the pointer ana. */
	char nqn[NVMF_NQN_MAX + 1];
	char serial[21];
	char model[41];
	bool allows_any_host;
	char (*hosts)[NVMF_NQN_MAX + 1]; /* owned: allowed host NQNs */
	unsigned n_hosts;
	uint32_t portal_mask;	       /* bit i: reachable through target->portals[i] */
	struct namespace **namespaces; /* owned: sorted by nsid */
	unsigned n_namespaces;
	_Atomic(struct ana *) ana;    /* owned; NULL: no ANA. RCU: ana_change.c swaps it */
	struct health_record *health; /* borrowed; NULL: nothing is counted */
};

/* Another discovery service, an entry of the discovery log. */
struct referral {
	uint8_t adrfam; /* enum nvmf_adrfam */
	char traddr[ADDR_STRING_MAX], trsvcid[8];
	char nqn[NVMF_NQN_MAX + 1];
};

/* Immutable: snapshot.h. */
struct snapshot {
	/* Thread: control builds and frees; pollers read under RCU */
	uint64_t generation;	      /* genctr of the discovery log */
	struct subsystem *subsystems; /* owned */
	unsigned n_subsystems;
	char discovery_nqn[NVMF_NQN_MAX + 1]; /* "": only the well-known name */
	struct referral *referrals;	      /* owned */
	unsigned n_referrals;
	struct credentials_list credentials; /* owned: of hosts that must authenticate */
};

/* Pollers, under RCU, and control. */
bool subsystem_allows(const struct subsystem *subsystem, const char *hostnqn);
bool subsystem_is_on_portal(const struct subsystem *subsystem, unsigned portal_index);
/* The first of the namespaces to which most others may write (limits.others); NULL: none is
 * writable. */
const struct namespace *subsystem_least_locked(const struct subsystem *subsystem);
/* Which others may write to its namespaces. */
enum backend_others subsystem_others(const struct subsystem *subsystem);
/* Whether an administrator's name means this namespace of it: "NQN", "NQN/NSID", or NULL for all. */
bool subsystem_is_named(const struct subsystem *subsystem, const struct namespace *ns,
			const char *name);
struct namespace *subsystem_namespace(const struct subsystem *subsystem, uint32_t nsid);
/* The first namespace with an nsid above this one; NULL at the end. */
struct namespace *subsystem_next_namespace(const struct subsystem *subsystem, uint32_t above);
