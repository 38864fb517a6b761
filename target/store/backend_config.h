/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration of a backend: the keys of a namespace's configuration that concern its store.
 * */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The purpose for which a store is opened. */
enum backend_role {
	BACKEND_SERVES, /* this rblkd alone has it */
	/* Several rblkd may have it, and one does at a time: the owner of a group. Where it is
	 * shared by machines, open does not wait for its lock, and goes on trying while it is asked
	 * again within seconds. -EINPROGRESS: nothing is known yet; -EBUSY: another has it. */
	BACKEND_OWNS,
	BACKEND_LOOKS, /* the same, for what hosts may know of it without its lock */
};

/* The memory of an earlier process. Borrowed. */
struct backend_memory {
	int fd; /* a memfd */
	uint64_t bytes;
};

struct backend_config {
	const char *path;    /* file, device; rbd: POOL/IMAGE */
	uint64_t size_bytes; /* ram; file with create */
	uint32_t block_size; /* of the namespace */
	bool must_create;
	bool is_read_only;
	enum backend_role role;
	uint64_t lease_ns; /* BACKEND_OWNS: silence after which another machine is the owner */
	bool is_shared;	   /* file: others with the same setting may have it, too */
	const void *own;   /* what ops.keys have, borrowed; NULL: ops has no keys */
	const struct backend_memory *memory; /* ram: goes on with it; NULL: begins empty */
};
