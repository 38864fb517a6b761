/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that are here, whatever number of controllers each has: what is limited and counted per
 * host. Made with a host's first controller, freed with its last.
 *
 * A host is an NQN once it has proven the name, or need not prove it. Before that, and for
 * discovery, where nothing is proven, a name is only a claim: if claims counted for the name, a
 * peer could use up what belongs to another host. Such a peer is a guest, and counts for the
 * address that it comes from (addr_is_same_party).
 */
#pragma once

#include <string.h>

#include "target/engine/target.h"

/* What one poller knows of a host; that poller's alone. */
struct host_poller {
	_Alignas(64) size_t data_bytes; /* of its buffers, held */
	size_t admin_bytes;
	unsigned n_receives; /* kept by its commands that wait, of those that all share */
	bool is_held_said;   /* that it is beyond bytes_per_host */
};

struct host {
	/* Thread: control */
	struct list node; /* target->hosts */
	unsigned n_refs;
	unsigned n_controllers;	      /* that are admitted; of a guest, those of discovery */
	unsigned n_queues;	      /* of them, the admin queues too */
	_Atomic unsigned n_io_queues; /* any thread reads */
	char nqn[NVMF_NQN_MAX + 1];   /* "" of a guest */
	bool is_guest;
	union addr address;  /* of a guest */
	unsigned n_proofs;   /* a worker thread computes for a guest's queue */
	struct list provers; /* of struct connection (proof.node): wait for one */
	struct host_poller pollers[POLLERS_MAX];
	struct qos qos; /* of all namespaces together */
};

/* Poller. How many more I/O queues the host may have; at least 1, so that Connect can log why it
 * may not. */
static inline unsigned host_room_for_queues(const struct target *target, const struct host *host)
{
	unsigned limit = atomic_load(&target->io_queues_per_host);
	unsigned n = atomic_load(&host->n_io_queues);

	return n < limit ? limit - n : 1;
}

/* All zeroes: the host has no identifier (Base 2.0, 8.22.1). */
static inline bool host_id_is_none(const uint8_t hostid[16])
{
	static const uint8_t none[16];

	return !memcmp(hostid, none, sizeof(none));
}
