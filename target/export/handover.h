/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handover: what an rblkd leaves to the one that takes over its namespaces without a loss of
 * power (operations/succession). It is the state that no configuration has and that a restart would
 * lose: the memory of ram namespaces, their identity, and all of each guard's state, also what
 * hosts did not ask to persist.
 *
 * It travels as a text, and memory as file descriptors beside it, in the order of the text:
 *
 *   {"version": 1, "moving_ns": 123, "last_cntlid": 7,
 *    "namespaces": [{"subsystem": NQN, "nsid": 1, "uuid": "...", "memory_bytes": 1048576,
 *                    "guard": "..."}, ...],
 *    "ana": [{"subsystem": NQN, "group": 1, "portal": "a", "state": 2}, ...],
 *    "drained": ["a", ...]}
 *
 * The text comes from a process of the same user, of an older or a newer release, and is checked
 * all the same. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uuid/uuid.h>

#include "target/store/backend.h"
#include "transport/wire/fabrics.h"

struct json_object;

enum {
	HANDOVER_FORMAT = 1,
	HANDOVER_BYTES_MAX = 64 * 1024 * 1024,
};

/* The handover of one namespace. */
struct handover_namespace {
	char subnqn[NVMF_NQN_MAX + 1];
	uint32_t nsid;
	uuid_t uuid;
	struct backend_memory memory; /* its fd is owned; -1: the store is no memory */
	char *guard;		      /* owned: text of guard_format_all; NULL: no state */
};

struct handover {
	struct json_object *json;	       /* owned; NULL: there is none */
	struct handover_namespace *namespaces; /* owned */
	unsigned n_namespaces;
};

/* Reads a text. memory: its file descriptors, which the handover owns from here on, also if this
 * fails; n of them. 0, or -EINVAL or -ENOMEM, and there is none. */
int handover_read(const char *text, const int *memory, unsigned n, struct handover *ret_handover);
/* The namespaces have mapped it. Before it is registered with an RDMA device: a software provider
 * looks for a descriptor of the memory that stays. */
void handover_close_memory(struct handover *handover);
void handover_free(struct handover *handover); /* accepts a zeroed one */

/* NULL: nothing was left to that namespace. handover may be NULL. */
const struct handover_namespace *handover_find(const struct handover *handover, const char *subnqn,
					       uint32_t nsid);
/* A number of json by its key; 0: there is none. */
uint64_t handover_number(const struct handover *handover, const char *key);
