/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block status. The NVMe commands that we use do not return which blocks are allocated (Get LBA
 * Status is optional, and few targets have it). "Allocated, may hold data" is always a legal
 * answer, so the reply is one such extent; a client that copies the volume reads all of it.
 */
#include "base/check.h"
#include "nbd_bridge/io/nbd_extents.h"

unsigned nbd_extents_query(const struct nbd_export *export, uint64_t offset, uint64_t length,
			   struct nbd_extent_run *runs, unsigned n_max)
{
	check(n_max > 0 && length > 0);
	runs[0] = (struct nbd_extent_run){.length = length, .flags = 0};
	return 1;
}
