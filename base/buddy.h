/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buddy allocator over one arena of memory: blocks of 2^n times the unit, aligned to
 * their size. No allocation of its own after init; take and give are O(log), and cheaper while
 * the same sizes come and go. Not thread safe: one owner loop. It hands out offsets, so that an arena can be registered memory,
 * a file, anything.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buddy {
	/* Thread: owner */
	size_t unit; /* smallest block in bytes, a power of 2: */
	unsigned unit_shift;
	unsigned n_units; /* a power of 2 multiple is not needed */
	unsigned n_orders;
	size_t n_free_bytes;
	int32_t *heads; /* owned: first free block of each order, -1 for none */
	int32_t *warm;	/* owned: of each order, first block given back and not merged yet */
	unsigned n_warm;
	int32_t *next; /* owned: by unit index */
	int32_t *prev;
	uint8_t *order_of; /* owned: of the block that starts here, and whether it is free */
};

/* size is rounded down to a multiple of unit; blocks have at most max_block bytes.
 * Returns 0 or -ENOMEM. */
int buddy_init(struct buddy *b, size_t size, size_t unit, size_t max_block);
/* Accepts a zeroed one. */
void buddy_deinit(struct buddy *b);

/* A block of at least n_bytes. Returns 0; -ENOBUFS: none is free; -EMSGSIZE: there never is one, as n_bytes
 * is not 1 .. max_block. */
int buddy_take(struct buddy *b, size_t n_bytes, size_t *ret_offset);
void buddy_give(struct buddy *b, size_t offset);
