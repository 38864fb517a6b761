/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports and their hosts: an immutable snapshot of subsystems, namespaces and hosts. The
 * control thread builds it and publishes it with RCU, and pollers read it without a lock. A change
 * builds a new snapshot that shares unchanged namespaces with the old one, swaps the pointer, waits
 * for a grace period and frees the old one (docs/ARCHITECTURE.md, "Snapshots").
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "target/export/subsystem.h"

struct conf;
struct domain;
struct handover;
struct health;
struct record_store;
struct target_config;

/* The objects of the daemon that a snapshot takes, besides the configuration. Borrowed: they
 * outlive it. */
struct snapshot_runtime {
	const struct handover
		*handover;	     /* of an earlier rblkd, for the first snapshot; NULL: none */
	struct record_store *state;  /* of this machine; NULL: nothing survives a restart */
	struct record_store *groups; /* of group_directory; NULL: no group has an owner by lock */
	struct health *health;	     /* NULL: nothing is counted */
	uint8_t slots[PORTALS_MAX];  /* for each of config->portals: its place in target->portals */
};

/* Each portal gets the slot of its place in the configuration. */
void snapshot_runtime_init(struct snapshot_runtime *runtime);

/*
 * Control. Begins to open the stores of namespaces that are not in `before` (NULL: none). Never
 * waits. False: snapshot_build would wait for some of them; call this again within seconds.
 */
bool snapshot_prepare(const struct target_config *config, const struct snapshot *before);
/*
 * Control. Opens every backend and builds a snapshot. Errors (missing file, not a multiple of the
 * block size, exported twice...) are reported through conf at their lines; it returns NULL then.
 * Namespaces that are in `before` (NULL: none), by NQN and nsid, are shared with it. `before` never
 * changes.
 */
struct snapshot *snapshot_build(const struct target_config *config,
				const struct snapshot_runtime *runtime, struct conf *conf,
				const struct snapshot *before);
/* Control, once no poller reads it. Closes namespaces that no other snapshot holds. */
void snapshot_free(struct snapshot *snapshot);
/* Control, once pollers have stopped. Saves the state of guards that could not be saved earlier. */
void snapshot_settle(const struct snapshot *snapshot);
/* As snapshot_free, while commands may still use its namespaces: those that no other snapshot holds
 * are appended to namespaces (by node), for namespace_free. */
void snapshot_retire(struct snapshot *snapshot, struct list *namespaces);
/* Control. The snapshot is published: files that it created or made larger stay so. */
void snapshot_keep(struct snapshot *snapshot);
/* Control. Frees a snapshot that was never published, and undoes its changes of files. Returns the
 * number of files that stay larger. Accepts NULL, and one that is kept. */
unsigned snapshot_discard(struct snapshot *snapshot);

/* A namespace, and where it is. Zeroed: before the first. */
struct namespace_at {
	const struct subsystem *subsystem;
	struct namespace *ns;
	unsigned i, j; /* of the next */
};
/* All namespaces, subsystem by subsystem; false: there are no more.
 *     for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);) */
bool snapshot_next(const struct snapshot *snapshot, struct namespace_at *at);
/* Pollers, under RCU. NULL: no subsystem of that name. */
const struct subsystem *snapshot_find(const struct snapshot *snapshot, const char *subnqn);
/* Whether this is the discovery service: the well-known name, or its own. */
bool snapshot_is_discovery(const struct snapshot *snapshot, const char *subnqn);

/* Control: starts registering the memory of ram namespaces with a domain of a device. */
void snapshot_register_memory(struct snapshot *snapshot, const struct domain *domain);
/* Control: undoes that, once no poller uses the device. Accepts NULL. */
void snapshot_forget_memory(struct snapshot *snapshot, unsigned device_index);
