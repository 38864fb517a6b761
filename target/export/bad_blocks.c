/* SPDX-License-Identifier: BSD-3-Clause */
/* See bad_blocks.h. A change copies the ranges, and merges or cuts those that it concerns. */
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/export/bad_blocks.h"

static uint64_t end_of(const struct bad_range *range)
{
	return range->slba + range->n_blocks;
}

/* A change adds one range at most: removing the middle of a range leaves two. */
static struct bad_blocks *room_for(const struct bad_blocks *set)
{
	unsigned n = set ? set->n : 0;

	return calloc(1, sizeof(*set) + (n + 1) * sizeof(set->ranges[0]));
}

static void append(struct bad_blocks *set, uint64_t slba, uint64_t end)
{
	check(!set->n || end_of(&set->ranges[set->n - 1]) <= slba); /* sorted */
	if (slba < end)
		set->ranges[set->n++] = (struct bad_range){slba, end - slba};
}

struct bad_blocks *bad_blocks_add(const struct bad_blocks *set, uint64_t slba, uint64_t n_blocks)
{
	struct bad_blocks *sum = room_for(set);
	uint64_t end = slba + n_blocks;
	unsigned i = 0, n = set ? set->n : 0;

	check(slba < end);
	if (!sum)
		return NULL;
	for (; i < n && end_of(&set->ranges[i]) < slba; i++)
		sum->ranges[sum->n++] = set->ranges[i];
	for (; i < n && set->ranges[i].slba <= end; i++) {
		slba = MIN(slba, set->ranges[i].slba);
		end = MAX(end, end_of(&set->ranges[i]));
	}
	append(sum, slba, end);
	for (; i < n; i++)
		sum->ranges[sum->n++] = set->ranges[i];
	return sum;
}

struct bad_blocks *bad_blocks_remove(const struct bad_blocks *set, uint64_t slba, uint64_t n_blocks)
{
	struct bad_blocks *rest = room_for(set);
	uint64_t end = slba + n_blocks;

	check(slba < end);
	for (unsigned i = 0; rest && set && i < set->n; i++) {
		const struct bad_range *range = &set->ranges[i];

		if (end <= range->slba || slba >= end_of(range)) {
			append(rest, range->slba, end_of(range));
			continue;
		}
		append(rest, range->slba, slba); /* empty if the range begins later */
		append(rest, end, end_of(range));
	}
	return rest;
}

uint64_t bad_blocks_worst(const struct bad_blocks *set)
{
	uint64_t n = 0;

	for (unsigned i = 0; set && i < set->n; i++)
		n += set->ranges[i].n_blocks / 2 + set->ranges[i].n_blocks % 2;
	return n;
}

bool bad_blocks_overlap(const struct bad_blocks *set, uint64_t slba, uint64_t n_blocks)
{
	unsigned low = 0, high = set ? set->n : 0;

	/* Binary search: the first range that ends behind slba. */
	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (end_of(&set->ranges[middle]) > slba)
			high = middle;
		else
			low = middle + 1;
	}
	return set && low < set->n && set->ranges[low].slba < slba + n_blocks;
}
