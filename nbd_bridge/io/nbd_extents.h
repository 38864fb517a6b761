/* SPDX-License-Identifier: BSD-3-Clause */
/* The meta context "base:allocation": which parts of the volume are holes or read as zeros. */
#pragma once

#include <stdint.h>

#include "nbd_bridge/io/nbd_export.h"

#define NBD_ALLOCATION_CONTEXT	  "base:allocation"
#define NBD_ALLOCATION_CONTEXT_ID 1u

struct nbd_extent_run {
	uint64_t length;
	uint32_t flags; /* NBD_STATE_HOLE, NBD_STATE_ZERO */
};

/* What is known of [offset, offset + length), length > 0: writes 1 to n_max runs, in
 * order and within the range, and returns how many. */
unsigned nbd_extents_query(const struct nbd_export *export, uint64_t offset, uint64_t length,
			   struct nbd_extent_run *runs, unsigned n_max);
