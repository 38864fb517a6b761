/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of blocks, as sorted ranges that do not touch. Immutable: a change makes a new one. */
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
	BAD_RANGES_MAX = 1024,	  /* that Write Uncorrectable may make */
	BAD_RANGES_WORST = 32768, /* that writes may make of them: 65536 blocks in one range */
};

/* NULL stands for the empty set here. Each returns a new set, to be freed with free(), or NULL
 * without memory. The range must not be empty, and its end not overflow. */
struct bad_blocks *bad_blocks_add(const struct bad_blocks *set, uint64_t slba, uint64_t n_blocks);
struct bad_blocks *bad_blocks_remove(const struct bad_blocks *set, uint64_t slba,
				     uint64_t n_blocks);
/* The most ranges that a set can become by removing from it: every other block of each range. No
 * removal makes that more. */
uint64_t bad_blocks_worst(const struct bad_blocks *set);
bool bad_blocks_overlap(const struct bad_blocks *set, uint64_t slba, uint64_t n_blocks);
