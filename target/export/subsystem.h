/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is exported to whom: an immutable snapshot of subsystems, namespaces and hosts,
 * built by the control thread, published with RCU, read by pollers without a lock. A
 * change builds a new snapshot that shares unchanged namespaces with the old one, swaps
 * the pointer, waits for a grace period and lets go of the old (docs/ARCHITECTURE.md,
 * "Snapshots").
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uuid/uuid.h>

#include "target/export/credentials.h"
#include "target/export/namespace.h"
#include "transport/wire/fabrics.h"

enum {
	PORTALS_MAX = 32, /* bits of subsystem.portal_mask */
};

struct ana;
struct health_record;
struct target_config;
struct conf;

struct subsystem {
	/* Thread: control builds; immutable once published, but for the pointer ana */
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

/* Another discovery service, as it stands in our log. */
struct referral {
	uint8_t adrfam; /* enum nvmf_adrfam */
	char traddr[ADDR_STRING_MAX], trsvcid[8];
	char nqn[NVMF_NQN_MAX + 1];
};

struct snapshot {
	/* Thread: control builds and frees; pollers read under RCU */
	uint64_t generation;	      /* genctr of the discovery log */
	struct subsystem *subsystems; /* owned */
	unsigned n_subsystems;
	char discovery_nqn[NVMF_NQN_MAX + 1]; /* "": it has no name of its own */
	struct referral *referrals;	      /* owned */
	unsigned n_referrals;
	struct credentials_list credentials; /* owned: of hosts that must prove themselves */
};

/*
 * Control thread. Opens every backend and builds the first snapshot. Mistakes (missing
 * file, not a multiple of the block size, exported twice...) are reported through conf at
 * their lines; returns NULL then.
 */
struct snapshot *snapshot_build(const struct target_config *config, struct conf *conf);
/*
 * The same for a changed configuration: namespaces that are in both, by NQN and nsid, are shared
 * with the snapshot before. That stays as it was, whatever happens.
 */
struct snapshot *snapshot_rebuild(const struct target_config *config, struct conf *conf,
				  const struct snapshot *before);
/* Control thread; nobody reads it any more. Closes namespaces no other snapshot holds. */
void snapshot_free(struct snapshot *snapshot);
/* Control thread; pollers have stopped. What namespaces keep over a restart is kept, if it was not. */
void snapshot_settle(const struct snapshot *snapshot);
/* As snapshot_free, but commands may still use its namespaces: those that no other snapshot holds are
 * appended to namespaces (by node), for namespace_free. */
void snapshot_retire(struct snapshot *snapshot, struct list *namespaces);
/* Control thread. No command of the namespace is under way, and none can come. */
void namespace_free(struct namespace *ns);
/* Control thread. It is published: the files that it has created or made larger stay so. */
void snapshot_keep(struct snapshot *snapshot);
/* Control thread. Undoes a snapshot that was never published, and what it did to files; returns how many
 * stay larger. Accepts NULL, and one that is kept. */
unsigned snapshot_discard(struct snapshot *snapshot);

/* Pollers, under RCU. NULL when there is none of that name. */
const struct subsystem *snapshot_find(const struct snapshot *snapshot, const char *subnqn);
/* Whether this names the discovery service: the well-known name, or its own. */
bool snapshot_is_discovery(const struct snapshot *snapshot, const char *subnqn);
bool subsystem_allows(const struct subsystem *subsystem, const char *hostnqn);
bool subsystem_is_on_portal(const struct subsystem *subsystem, unsigned portal_index);
struct namespace *subsystem_namespace(const struct subsystem *subsystem, uint32_t nsid);
/* The first namespace with an nsid above this one; NULL at the end. */
struct namespace *subsystem_next_namespace(const struct subsystem *subsystem, uint32_t above);

/* Control thread: begins to register the memory of ram namespaces with a domain of a device. */
void snapshot_register_memory(struct snapshot *snapshot, const struct domain *domain);
/* Control thread: undo that; nobody uses the device any more. */
void snapshot_forget_memory(struct snapshot *snapshot, unsigned device_index);
