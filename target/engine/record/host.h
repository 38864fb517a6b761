/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connected host: what is limited and counted per host, whatever number of controllers it has.
 * The control thread creates it with a host's first controller and frees it with the last.
 *
 * A host is known by its NQN once it has proven that name, or if it need not prove it. Before the
 * proof, and for discovery, where no host proves anything, a name is only a claim. If claims
 * counted for the name, a peer could use up what belongs to another host. Such a peer is a guest,
 * and counts for its address (addr_is_same_party).
 */
#pragma once

#include <string.h>

#include "target/engine/record/target.h"

/* The counts of one poller for a host. Thread: that poller. */
struct host_poller {
	_Alignas(64) size_t data_bytes; /* of the buffers that it holds */
	size_t admin_bytes;
	unsigned n_receives; /* shared receives that its waiting commands retain */
	bool is_held_said;   /* it is logged that the host is beyond bytes_per_host */
};

struct host {
	/* Thread: control */
	struct list node; /* target->hosts */
	unsigned n_refs;
	unsigned n_controllers;	      /* admitted ones; of a guest, discovery controllers */
	unsigned n_queues;	      /* of these controllers, including admin queues */
	_Atomic unsigned n_io_queues; /* control writes, any thread reads; as n_dying */
	_Atomic unsigned n_dying;     /* lost associations that still have commands (siblings.c) */
	char nqn[NVMF_NQN_MAX + 1];   /* "" for a guest */
	bool is_guest;
	union addr address;  /* of a guest */
	unsigned n_proofs;   /* of a guest's queues, under way on worker threads */
	struct list provers; /* of struct connection (proof.node): they wait for such a proof */
	struct host_poller pollers[POLLERS_MAX];
	struct qos qos; /* for all namespaces together */
};

/* Poller. How many more I/O queues the host may have. At least 1, so that Connect runs and can log
 * why it refuses. */
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
