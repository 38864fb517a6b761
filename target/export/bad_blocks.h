/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of blocks, as sorted ranges that do not touch. Immutable: a change makes a new set. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct bad_range {
	uint64_t slba, n_blocks;
};

struct bad_blocks {
	unsigned n;
	struct bad_range ranges[];
};

enum {
	BAD_RANGES_MAX = 1024, /* limit of what Write Uncorrectable makes */
	/* limit of what writes make of these: 65536 blocks in one range */
	BAD_RANGES_WORST = 32768,
};

/* NULL is the empty set. Each function returns a new set, which the caller frees with free(), or
 * NULL without memory. The range must not be empty, and its end must not overflow. */
struct bad_blocks *bad_blocks_add(const struct bad_blocks *set, uint64_t slba, uint64_t n_blocks);
struct bad_blocks *bad_blocks_remove(const struct bad_blocks *set, uint64_t slba,
				     uint64_t n_blocks);
/* The most ranges that removals can make of a set: every other block of each range. No removal
 * increases it. */
uint64_t bad_blocks_worst(const struct bad_blocks *set);
bool bad_blocks_overlap(const struct bad_blocks *set, uint64_t slba, uint64_t n_blocks);
