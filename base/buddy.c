/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buddy allocator; see buddy.h. The bookkeeping is indexed by unit and lies outside the arena, so
 * a wild write into a buffer (ours or a peer's RDMA) cannot corrupt it.
 *
 * A block of order n starts at a multiple of 2^n units; its buddy is the index with bit n flipped.
 * For each unit, order_of[] has the order of the block that starts there, with IS_FREE while the
 * block is on heads[order]; or NO_BLOCK inside a block. Two free buddies are never side by side,
 * except at the highest order: a merge joins them at once.
 *
 * A caller that takes and gives the same sizes would split and merge in each round. So up to
 * WARM_MAX freed blocks stay on warm[order], marked IS_WARM, for the next take of their size. They
 * are merged when no other block is left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/buddy.h"
#include "base/check.h"

enum {
	IS_FREE = 0x80,
	IS_WARM = 0x40,
	WARM_MAX = 64,
	NO_BLOCK = 0x7f,
};

static void push(struct buddy *b, int32_t block, unsigned order)
{
	b->order_of[block] = (uint8_t)(order | IS_FREE);
	b->prev[block] = -1;
	b->next[block] = b->heads[order];
	if (b->next[block] >= 0)
		b->prev[b->next[block]] = block;
	b->heads[order] = block;
}

static void unlink_block(struct buddy *b, int32_t block, unsigned order)
{
	if (b->prev[block] >= 0)
		b->next[b->prev[block]] = b->next[block];
	else
		b->heads[order] = b->next[block];
	if (b->next[block] >= 0)
		b->prev[b->next[block]] = b->prev[block];
	b->order_of[block] = NO_BLOCK;
}

/* The largest block that begins below end and ends there, of those that a merge of free blocks
 * leaves. */
static unsigned last_order(const struct buddy *b, uint32_t end)
{
	return MIN((unsigned)__builtin_ctz(end), b->n_orders - 1);
}

/* From the end down, so that the lowest blocks come first on the lists and stay in the cache. */
static void carve(struct buddy *b, uint32_t first, uint32_t end)
{
	while (end > first) {
		unsigned order = last_order(b, end);

		end -= 1U << order;
		push(b, (int32_t)end, order);
	}
}

int buddy_init(struct buddy *b, size_t size, size_t unit, size_t max_block)
{
	check(is_power_of_2(unit) && max_block >= unit);
	*b = (struct buddy){.unit = unit, .unit_shift = log2_floor(unit)};
	if (size / unit > INT32_MAX || max_block / unit > INT32_MAX)
		return -ENOMEM;
	b->n_units = (unsigned)(size / unit);
	b->n_orders = log2_ceil((max_block + unit - 1) / unit) + 1;
	b->max_block = unit << (b->n_orders - 1);
	b->n_free_bytes = b->n_units * unit;
	b->heads = malloc(b->n_orders * sizeof(*b->heads));
	b->warm = malloc(b->n_orders * sizeof(*b->warm));
	b->next = calloc(b->n_units + 1, sizeof(*b->next));
	b->prev = calloc(b->n_units + 1, sizeof(*b->prev));
	b->order_of = malloc(b->n_units + 1);
	if (!b->heads || !b->warm || !b->next || !b->prev || !b->order_of) {
		buddy_deinit(b);
		return -ENOMEM;
	}
	memset(b->heads, 0xff, b->n_orders * sizeof(*b->heads));
	memset(b->warm, 0xff, b->n_orders * sizeof(*b->warm));
	memset(b->order_of, NO_BLOCK, b->n_units + 1);
	carve(b, 0, b->n_units);
	return 0;
}

void buddy_deinit(struct buddy *b)
{
	free(b->heads);
	free(b->warm);
	free(b->next);
	free(b->prev);
	free(b->order_of);
	*b = (struct buddy){0};
}

/* Joins the block with its free buddy, the result with its own, and so on. */
static void merge(struct buddy *b, int32_t block, unsigned order)
{
	b->order_of[block] = NO_BLOCK;
	for (; order < b->n_orders - 1; order++) {
		int32_t buddy = block ^ (1 << order);

		if ((unsigned)buddy >= b->n_units || b->order_of[buddy] != (order | IS_FREE))
			break;
		unlink_block(b, buddy, order);
		block &= ~(1 << order);
	}
	push(b, block, order);
}

/* Takes a block of that order off the lists; -1: no block is as large. */
static int32_t split_off(struct buddy *b, unsigned order)
{
	unsigned from;
	int32_t block;

	for (from = order; from < b->n_orders && b->heads[from] < 0; from++)
		;
	if (from == b->n_orders)
		return -1;
	block = b->heads[from];
	unlink_block(b, block, from);
	while (from > order) { /* keep the lower half, free the upper half */
		from--;
		push(b, block + (1 << from), from);
	}
	return block;
}

static int32_t take_warm(struct buddy *b, unsigned order)
{
	int32_t block = b->warm[order];

	if (block >= 0) {
		b->warm[order] = b->next[block];
		b->n_warm--;
	}
	return block;
}

static void merge_warm(struct buddy *b)
{
	for (unsigned order = 0; order < b->n_orders; order++) {
		int32_t block;

		while ((block = take_warm(b, order)) >= 0)
			merge(b, block, order);
	}
}

static void check_border(const struct buddy *b, size_t offset)
{
	uint32_t unit = (uint32_t)(offset >> b->unit_shift);

	check(unit == b->n_units || !(unit & ((1U << (b->n_orders - 1)) - 1)));
}

static bool is_free(const struct buddy *b, uint32_t first, uint32_t end)
{
	while (end > first) {
		unsigned order = last_order(b, end);

		end -= 1U << order;
		if (b->order_of[end] != (order | IS_FREE))
			return false;
	}
	return true;
}

bool buddy_close(struct buddy *b, size_t offset, size_t end)
{
	uint32_t first = (uint32_t)(offset >> b->unit_shift),
		 last = (uint32_t)(end >> b->unit_shift);

	check_border(b, offset);
	check_border(b, end);
	merge_warm(b);
	if (!is_free(b, first, last))
		return false;
	while (last > first) {
		unsigned order = last_order(b, last);

		last -= 1U << order;
		unlink_block(b, (int32_t)last, order);
	}
	b->n_free_bytes -= end - offset;
	return true;
}

void buddy_open(struct buddy *b, size_t offset, size_t end)
{
	check_border(b, offset);
	check_border(b, end);
	carve(b, (uint32_t)(offset >> b->unit_shift), (uint32_t)(end >> b->unit_shift));
	b->n_free_bytes += end - offset;
}

int buddy_take(struct buddy *b, size_t n_bytes, size_t *ret_offset)
{
	unsigned order;
	int32_t block;

	if (UNLIKELY(!n_bytes || n_bytes > b->max_block))
		return -EMSGSIZE;
	order = log2_ceil((n_bytes + b->unit - 1) >> b->unit_shift);
	block = take_warm(b, order);
	if (block < 0)
		block = split_off(b, order);
	if (block < 0 && b->n_warm) {
		merge_warm(b);
		block = split_off(b, order);
	}
	if (block < 0)
		return -ENOBUFS;
	b->order_of[block] = (uint8_t)order;
	b->n_free_bytes -= b->unit << order;
	*ret_offset = (size_t)block << b->unit_shift;
	return 0;
}

void buddy_give(struct buddy *b, size_t offset)
{
	int32_t block = (int32_t)(offset >> b->unit_shift);
	unsigned order;

	check(!(offset & (b->unit - 1)) && offset >> b->unit_shift < b->n_units);
	order = b->order_of[block];
	check(order < b->n_orders); /* else a double free, or never taken */
	b->n_free_bytes += b->unit << order;
	if (b->n_warm == WARM_MAX) {
		merge(b, block, order);
		return;
	}
	b->order_of[block] = (uint8_t)(order | IS_WARM);
	b->next[block] = b->warm[order];
	b->warm[order] = block;
	b->n_warm++;
}
