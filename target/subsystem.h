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

#include "target/backend/backend.h"
#include "target/auth/credentials.h"
#include "target/guard/guard.h"
#include "target/qos/qos.h"
#include "target/stats/stats.h"
#include "transport/device.h"
#include "transport/wire/fabrics.h"

enum {
	POLLERS_MAX = 8,
	NSID_MAX = 1024,  /* NN */
	PORTALS_MAX = 32, /* bits of subsystem.portal_mask */
};

struct ana;
struct health_record;
struct target_config;
struct conf;

/* What one poller counts about one namespace; written by that poller alone. */
struct namespace_counters {
	_Alignas(64) uint64_t n_in_flight;
	uint64_t n_reads, n_writes, read_blocks, written_blocks, n_flushes, n_errors;
	uint64_t n_media_errors;       /* of n_errors: the medium's */
	size_t buffer_bytes;	       /* of the poller's buffers, held for it */
	struct namespace_stats *stats; /* borrowed from the namespace */
};

struct namespace
{
	/* Thread: control builds; immutable once published, but for what is atomic, and the
	 * counters */
	unsigned n_refs;  /* snapshots that hold it; control only */
	struct list node; /* of those that none holds any more; control only */
	uint32_t nsid;
	uuid_t uuid;
	uint8_t nguid[16];	   /* big-endian; the uuid's bytes, or chosen */
	uint8_t eui64[8];	   /* big-endian; all zero: none */
	uint8_t block_shift;	   /* 9 or 12 */
	_Atomic uint64_t n_blocks; /* control changes it: resize.c */
	bool is_read_only;
	_Atomic bool has_failed;   /* a flush failed: writes and flushes are refused */
	struct guard *guard;	   /* counted: of the medium, not of this description */
	struct backend *backend;   /* owned */
	void *memory;		   /* ram: borrowed from the backend, else NULL */
	struct mr mrs[DEVICE_MAX]; /* ram: its registration, by device index:
				      namespace_memory.c */
	uint64_t mr_bytes[DEVICE_MAX]; /* what they cover, from the start of memory */
	_Atomic uint32_t registered;   /* bit mask of the valid mrs */
	const char *kind;	       /* "file", "device", "ram" */
	char *path;		       /* owned; NULL for ram */
	struct namespace_counters counters[POLLERS_MAX];
	struct qos qos;		       /* of all hosts together */
	struct namespace_stats *stats; /* owned: POLLERS_MAX */
	struct health_record *health;  /* its subsystem's; borrowed; may be NULL */
	struct list health_node;       /* health->namespaces */
};

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
	_Atomic(struct ana *) ana; /* owned; NULL: no ANA. RCU: ana_change.c swaps it */
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
	struct credentials_list
		credentials; /* owned: of hosts that must prove themselves */
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
/* Control thread. Undoes a snapshot that was never published, with the files it created. */
void snapshot_discard(struct snapshot *snapshot);

/* Pollers, under RCU. NULL when there is none of that name. */
const struct subsystem *snapshot_find(const struct snapshot *snapshot,
				      const char *subnqn);
/* Whether this names the discovery service: the well-known name, or its own. */
bool snapshot_is_discovery(const struct snapshot *snapshot, const char *subnqn);
bool subsystem_allows(const struct subsystem *subsystem, const char *hostnqn);
bool subsystem_is_on_portal(const struct subsystem *subsystem, unsigned portal_index);
struct namespace *subsystem_namespace(const struct subsystem *subsystem, uint32_t nsid);
/* The first namespace with an nsid above this one; NULL at the end. */
struct namespace *subsystem_next_namespace(const struct subsystem *subsystem,
					   uint32_t above);

/* Control thread: begins to register the memory of ram namespaces with a domain of a device. */
void snapshot_register_memory(struct snapshot *snapshot, const struct domain *domain);
/* Control thread: undo that; nobody uses the device any more. */
void snapshot_forget_memory(struct snapshot *snapshot, unsigned device_index);
