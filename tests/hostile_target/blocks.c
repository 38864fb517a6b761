/* SPDX-License-Identifier: BSD-3-Clause */
/* See blocks.h. */
#include <stdbool.h>
#include <string.h>

#include "tests/hostile_target/blocks.h"
#include "tests/hostile_target/octets.h"

enum told {
	TOLD_TRUTH,
	TOLD_DESCENDING,
	TOLD_TOO_MANY,
	TOLD_OVERFLOW,
	TOLD_NOTHING,
	TOLD_EMPTY, /* a descriptor without blocks */
};

static void put_blocks(struct slot *slot, unsigned i, uint64_t slba, uint32_t n)
{
	wr64(slot->data + 8 + 16 * i, slba);
	wr32(slot->data + 16 + 16 * i, n);
	slot->data[21 + 16 * i] = 2;
}

static bool is_allocated(uint64_t block)
{
	const uint8_t *at = ram + block * opt.block_size;

	for (unsigned i = 0; i < opt.block_size; i++)
		if (at[i])
			return true;
	return false;
}

/* Returns how many descriptors there are; what has bytes other than 0 is allocated. */
static unsigned tell_truth(struct slot *slot, uint64_t slba, uint64_t end)
{
	unsigned n = 0;

	for (uint64_t at = slba; at < end; at++) {
		uint64_t first = at;

		while (at < end && is_allocated(at))
			at++;
		if (at == first)
			continue;
		if (n == 255)
			return n + 1;
		put_blocks(slot, n++, first, (uint32_t)(at - first));
	}
	return n;
}

void blocks_answer(struct slot *slot, uint32_t n_bytes, uint64_t n_blocks_now)
{
	uint64_t slba = rd64(slot->capsule + 40), rl = rd16(slot->capsule + 52);
	uint64_t end = rl ? slba + rl : n_blocks_now;
	unsigned n = 0;

	if (!(opt.aocs & 1) || slot->capsule[55] != 2 || n_bytes != DATA_BYTES ||
	    rd32(slot->capsule + 48) != 1023 || slba >= n_blocks_now || end > n_blocks_now)
		violation("Get LBA Status: action %02x, %llu blocks at %llu", slot->capsule[55],
			  (unsigned long long)rl, (unsigned long long)slba);
	memset(slot->data, 0, DATA_BYTES);
	slot->out = slot->data;
	slot->n_out = DATA_BYTES;
	put_blocks(slot, 0, slba + 8, 8);
	switch (opt.told) {
	case TOLD_TRUTH:
		n = tell_truth(slot, slba, end);
		break;
	case TOLD_DESCENDING:
		put_blocks(slot, 1, slba, 2);
		n = 2;
		break;
	case TOLD_TOO_MANY:
		n = UINT32_MAX;
		break;
	case TOLD_OVERFLOW:
		put_blocks(slot, 0, UINT64_MAX - 1, 8);
		n = 1;
		break;
	case TOLD_EMPTY:
		put_blocks(slot, 1, slba + 20, 0);
		n = 2;
		break;
	}
	wr32(slot->data, n);
	slot->data[4] = opt.told == TOLD_NOTHING || n == 256 ? 1 : 2;
}
