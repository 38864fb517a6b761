/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that are here, whatever number of controllers each has: what is limited and counted per host.
 * Made with a host's first controller, freed with its last.
 *
 * A host is an NQN once it has proven the name, or need not prove it. Before that, and for discovery,
 * where nothing is proven, a name is only a claim: if claims counted for the name, a peer could use up
 * what belongs to another host. Such a peer is a guest, and counts for the address that it comes from
 * (addr_is_same_party).
 */
#pragma once

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
	struct list provers; /* of struct queue (proof.node): wait for one */
	struct host_poller pollers[POLLERS_MAX];
	struct qos qos; /* of all namespaces together */
};

/* All of these: control. */

/* One more reference to the host of that name; NULL without memory. */
struct host *host_take(struct target *target, const char *nqn);
/* The same of the guest that comes from there. */
struct host *host_take_guest(struct target *target, const union addr *remote);
/* NULL: it is not here. */
struct host *host_find(const struct target *target, const char *nqn);
struct host *host_find_guest(const struct target *target, const union addr *remote);
/* The configuration has changed: limits of all hosts. */
void hosts_set_qos(struct target *target);
/* The same of what pollers look at; once there are pollers. */
void hosts_set_limits(struct target *target);
/* Poller. How many I/O queues more it may have; at least 1, so that it is told why when it may not. */
unsigned host_room_for_queues(const struct target *target, const struct host *host);
/* Accepts NULL. */
void host_give(struct host *host);
