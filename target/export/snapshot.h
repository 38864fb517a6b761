/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is exported to which hosts: an immutable snapshot of subsystems, namespaces and hosts, built
 * by the control thread, published with RCU, read by pollers without a lock. A change builds a new
 * snapshot that shares unchanged namespaces with the old one, swaps the pointer, waits for a grace
 * period and frees the old one (docs/ARCHITECTURE.md, "Snapshots").
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "target/config/credentials.h"
#include "target/export/subsystem.h"

struct conf;
struct domain;
struct health;
struct state_directory;
struct target_config;

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

/* What a snapshot takes from the daemon, beside the configuration. Borrowed: outlives it. */
struct snapshot_runtime {
	struct state_directory *state; /* NULL: nothing survives a restart */
	struct health *health;	       /* NULL: nothing is counted */
	uint8_t slots[PORTALS_MAX]; /* of config->portals, in its order: place in target->portals */
};

/* Each portal of the configuration has the slot of its place there. */
void snapshot_runtime_init(struct snapshot_runtime *runtime, struct state_directory *state,
			   struct health *health);

/*
 * Control thread. Opens every backend and builds a snapshot. Mistakes (missing file, not a multiple
 * of the block size, exported twice...) are reported through conf at their lines; returns NULL
 * then. Namespaces that are in the snapshot before (NULL: there is none), by NQN and nsid, are
 * shared with it. That stays as it was, whatever happens.
 */
struct snapshot *snapshot_build(const struct target_config *config,
				const struct snapshot_runtime *runtime, struct conf *conf,
				const struct snapshot *before);
/* Control thread; no poller reads it any more. Closes namespaces no other snapshot holds. */
void snapshot_free(struct snapshot *snapshot);
/* Control thread; pollers have stopped. What namespaces keep over a restart is kept, if it was
 * not. */
void snapshot_settle(const struct snapshot *snapshot);
/* As snapshot_free, but commands may still use its namespaces: those that no other snapshot holds
 * are appended to namespaces (by node), for namespace_free. */
void snapshot_retire(struct snapshot *snapshot, struct list *namespaces);
/* Control thread. It is published: the files that it has created or made larger stay so. */
void snapshot_keep(struct snapshot *snapshot);
/* Control thread. Undoes a snapshot that was never published, and what it did to files; returns how
 * many stay larger. Accepts NULL, and one that is kept. */
unsigned snapshot_discard(struct snapshot *snapshot);

/* Pollers, under RCU. NULL when there is none of that name. */
const struct subsystem *snapshot_find(const struct snapshot *snapshot, const char *subnqn);
/* Whether this names the discovery service: the well-known name, or its own. */
bool snapshot_is_discovery(const struct snapshot *snapshot, const char *subnqn);

/* Control thread: begins to register the memory of ram namespaces with a domain of a device. */
void snapshot_register_memory(struct snapshot *snapshot, const struct domain *domain);
/* Control thread: undo that; no poller uses the device any more. */
void snapshot_forget_memory(struct snapshot *snapshot, unsigned device_index);
