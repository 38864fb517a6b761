/* SPDX-License-Identifier: BSD-3-Clause */
/* What a backend is opened with: the keys of a namespace's configuration that concern its store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
	bool is_shared;			   /* file: others with the same setting may have it, too */
	const char *ceph_conf, *ceph_user; /* of ops with has_cluster */
	bool keeps_records;		   /* likewise: see records */
	const struct backend_memory *memory; /* ram: goes on with it; NULL: begins empty */
};
