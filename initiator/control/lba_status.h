/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get LBA Status for allocated blocks (NVM Command Set 1.1, 5.2.1, ATYPE 02h): the question, and
 * the reading of its answer. Pure: nothing of the answer is trusted.
 */
#pragma once

#include "initiator/control/admin.h"
#include "initiator/io/volume_io.h"

/* Whether blocks from slba on are allocated; n_blocks > 0. Without done and context. */
struct admin_command lba_status_ask(uint32_t nsid, uint64_t slba, uint64_t n_blocks);
/*
 * Reads data, ADMIN_DATA_BYTES, an answer about that range: writes 1 to n_max runs in order, from
 * slba on and within the range, with lengths in blocks, and returns how many. A block counts as a
 * hole only if the answer covers it and excludes it. An answer that contradicts itself says
 * nothing: all may hold data.
 */
unsigned lba_status_read(const void *data, uint64_t slba, uint64_t n_blocks,
			 struct volume_run *runs, unsigned n_max);
