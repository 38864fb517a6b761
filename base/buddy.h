/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buddy allocator over one arena: blocks of 2^n times the unit, aligned to their size. It returns
 * offsets, so the arena can be registered memory, a file, anything; the caller owns the arena. It
 * allocates nothing after buddy_init. Take and give are O(log), and cheaper while the same sizes
 * alternate. Not thread safe: one owner loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buddy {
	/* Thread: owner */
	size_t unit; /* smallest block in bytes, a power of 2 */
	unsigned unit_shift;
	unsigned n_units; /* any number, not only a power of 2 */
	unsigned n_orders;
	size_t max_block; /* bytes of the largest one */
	size_t n_free_bytes;
	int32_t *heads; /* owned: first free block of each order, -1 for none */
	int32_t *warm;	/* owned: of each order, first block that is free but not merged yet */
	unsigned n_warm;
	int32_t *next; /* owned: by unit index */
	int32_t *prev;
	uint8_t *order_of; /* owned: order of the block that starts here, and its marks */
};

/* size is rounded down to a multiple of unit; blocks have at most max_block bytes.
 * Returns 0 or -ENOMEM. */
int buddy_init(struct buddy *b, size_t size, size_t unit, size_t max_block);
/* Accepts a zeroed one. */
void buddy_deinit(struct buddy *b);

/* A block of at least n_bytes. 0; -ENOBUFS: none is free; -EMSGSIZE: n_bytes is 0 or above
 * max_block. */
int buddy_take(struct buddy *b, size_t n_bytes, size_t *ret_offset);
/*
 * Takes [offset, end) out of the arena, so that buddy_take never returns it; buddy_open puts it
 * back. Both ends are multiples of max_block, or the end is that of the arena. buddy_close returns
 * false, and changes nothing, unless all of the range is free.
 */
bool buddy_close(struct buddy *b, size_t offset, size_t end);
void buddy_open(struct buddy *b, size_t offset, size_t end); /* it is closed */
/* Frees the block at offset. Stops the program if buddy_take did not return that offset. */
void buddy_give(struct buddy *b, size_t offset);
