/* SPDX-License-Identifier: BSD-3-Clause */
/* See whole.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/shared_memory.h"
#include "target/store/whole.h"

struct whole *whole_new(void)
{
	struct whole *whole = aligned_alloc(_Alignof(struct whole), sizeof(*whole));

	static_assert(WHOLE_MARKS >= 2 * (16 * 1024 * 1024 >> WHOLE_SHIFT), "max_transfer");
	if (whole)
		memset(whole, 0, sizeof(*whole));
	return whole;
}

void whole_free(struct whole *whole)
{
	free(whole);
}

static whole_mark *mark_at(struct whole *whole, uint64_t offset)
{
	return &whole->marks[offset >> WHOLE_SHIFT & (WHOLE_MARKS - 1)];
}

/* ---- devices -------------------------------------------------------------------------------- */

static whole_mark *next_of(whole_mark *mark)
{
	uintptr_t mask = sizeof(struct whole) - 1, at = (uintptr_t)mark;

	return (whole_mark *)((at & ~mask) | ((at + sizeof(*mark)) & mask));
}

bool whole_take(struct whole *whole, uint64_t offset, uint32_t n_bytes, whole_hold *ret_hold)
{
	whole_mark *first = mark_at(whole, offset);
	uint64_t n = ((offset + n_bytes - 1) >> WHOLE_SHIFT) - (offset >> WHOLE_SHIFT);
	whole_hold one;

	*ret_hold = (uintptr_t)first | n << WHOLE_HOLD_SHIFT | WHOLE_MANY;
	for (uint64_t i = 0; i <= n; i++) {
		if (whole_take_one(whole, offset + i * WHOLE_BYTES, &one))
			continue;
		for (; i; i--, first = next_of(first))
			atomic_fetch_sub_explicit(first, 1, memory_order_relaxed);
		*ret_hold = 0;
		return false;
	}
	return true;
}

void whole_give(whole_hold hold)
{
	uint64_t n = (hold & ~WHOLE_MANY) >> WHOLE_HOLD_SHIFT;
	uint64_t first = hold & (((uint64_t)1 << WHOLE_HOLD_SHIFT) - 1);
	whole_mark *mark = (whole_mark *)(uintptr_t)first;

	for (uint64_t i = 0; hold && i <= n; i++, mark = next_of(mark))
		atomic_fetch_sub_explicit(mark, 1, memory_order_release);
}

/* ---- processors ----------------------------------------------------------------------------- */

static bool begin_read(whole_mark *mark)
{
	uint64_t before = atomic_fetch_add_explicit(mark, 1, memory_order_acquire);

	if (!(before & WHOLE_CLOSED))
		return true;
	atomic_fetch_sub_explicit(mark, 1, memory_order_relaxed);
	return false;
}

static bool begin_write(whole_mark *mark)
{
	uint64_t now = atomic_load_explicit(mark, memory_order_relaxed);

	do {
		if (now & (WHOLE_CLOSED | WHOLE_READERS))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		mark, &now, now | WHOLE_CLOSED, memory_order_acquire, memory_order_relaxed));
	return true;
}

/* Up to the end of the piece. */
static uint64_t piece(uint64_t offset, uint64_t n_bytes)
{
	return MIN(n_bytes, WHOLE_BYTES - (offset & (WHOLE_BYTES - 1)));
}

uint64_t whole_write(struct whole *whole, void *memory, uint64_t offset, const void *from,
		     uint64_t n_bytes)
{
	uint64_t n = 0;

	while (n < n_bytes) {
		uint64_t at = offset + n, n_now = piece(at, n_bytes - n);
		whole_mark *mark = mark_at(whole, at);

		if (!begin_write(mark))
			break;
		if (from)
			shared_copy((char *)memory + at, (const char *)from + n, n_now);
		else
			shared_zero((char *)memory + at, n_now);
		atomic_fetch_and_explicit(mark, ~WHOLE_CLOSED, memory_order_release);
		n += n_now;
	}
	return n;
}

uint64_t whole_read(struct whole *whole, const void *memory, uint64_t offset, void *to,
		    uint64_t n_bytes)
{
	uint64_t n = 0;

	while (n < n_bytes) {
		uint64_t at = offset + n, n_now = piece(at, n_bytes - n);
		whole_mark *mark = mark_at(whole, at);

		if (!begin_read(mark))
			break;
		shared_copy((char *)to + n, (const char *)memory + at, n_now);
		atomic_fetch_sub_explicit(mark, 1, memory_order_release);
		n += n_now;
	}
	return n;
}

void whole_want(struct whole *whole, uint64_t offset)
{
	atomic_fetch_add_explicit(mark_at(whole, offset), WHOLE_WANTED, memory_order_relaxed);
}

void whole_want_no_more(struct whole *whole, uint64_t offset)
{
	uint64_t before = atomic_fetch_sub_explicit(mark_at(whole, offset), WHOLE_WANTED,
						    memory_order_relaxed);

	check(before >> WHOLE_WANTED_SHIFT);
}
