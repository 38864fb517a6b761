/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole blocks: a read of a block returns it as one write left it. A disk does that by itself; what
 * moves to and from memory, by a processor or by an RDMA device, is ordered here.
 *
 * A piece of 4 KiB has a mark, which it shares with pieces that lie 32 MiB apart. Readers hold it
 * together: a processor while it copies that piece, a device while it reads all that its command
 * names, which may take long. A writer closes it alone, while it copies one piece, and never waits
 * with a closed mark. A writer that finds readers announces that it wants the mark. That keeps
 * further devices off, which could otherwise follow each other without end; a processor that copies
 * waits no longer than a copy takes.
 *
 * Any thread; nothing here blocks.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WHOLE_SHIFT = 12,
	WHOLE_BYTES = 1 << WHOLE_SHIFT,
	WHOLE_MARKS = 8192,
	WHOLE_WANTED_SHIFT = 40, /* readers below, writers that wait above */
	WHOLE_HOLD_SHIFT = 48,
};

#define WHOLE_READERS (((uint64_t)1 << WHOLE_WANTED_SHIFT) - 1)
#define WHOLE_WANTED  ((uint64_t)1 << WHOLE_WANTED_SHIFT)
#define WHOLE_CLOSED  ((uint64_t)1 << 63)
#define WHOLE_MANY    ((uint64_t)1 << 63)

typedef _Atomic uint64_t whole_mark;

/* Aligned to its size, by which a mark leads to the one behind it. */
struct whole {
	_Alignas(WHOLE_MARKS * sizeof(whole_mark)) whole_mark marks[WHOLE_MARKS];
};

/*
 * What a device holds: the address of the first mark; WHOLE_MANY, and above WHOLE_HOLD_SHIFT how
 * many more there are, if it is not the only one. 0: nothing.
 */
typedef uint64_t whole_hold;

/* NULL without memory. */
struct whole *whole_new(void);
/* Accepts NULL. */
void whole_free(struct whole *whole);

/* Whether one mark is enough. */
static inline bool whole_is_one(uint64_t offset, uint32_t n_bytes)
{
	return !(((offset + n_bytes - 1) ^ offset) >> WHOLE_SHIFT);
}

/* A device will read this range, which takes one mark; any range. False: not now. */
static inline bool whole_take_one(struct whole *whole, uint64_t offset, whole_hold *ret_hold)
{
	uint64_t at = offset >> (WHOLE_SHIFT - 3) & (WHOLE_MARKS - 1) << 3;
	whole_mark *mark = (whole_mark *)((uintptr_t)whole + at);
	uint64_t before = atomic_fetch_add_explicit(mark, 1, memory_order_acquire);

	*ret_hold = (uintptr_t)mark;
	if (__builtin_expect(!(before >> WHOLE_WANTED_SHIFT), 1))
		return true;
	atomic_fetch_sub_explicit(mark, 1, memory_order_relaxed);
	*ret_hold = 0;
	return false;
}
bool whole_take(struct whole *whole, uint64_t offset, uint32_t n_bytes, whole_hold *ret_hold);

static inline bool whole_is_many(whole_hold hold)
{
	return hold & WHOLE_MANY;
}

/* It has read it; one mark; any. Accept 0. */
static inline void whole_give_one(whole_hold hold)
{
	if (__builtin_expect(hold != 0, 1))
		atomic_fetch_sub_explicit((whole_mark *)(uintptr_t)hold, 1, memory_order_release);
}
void whole_give(whole_hold hold);

/*
 * Copy n_bytes at offset of memory, piece by piece, and return how many were: all, or those up to a
 * piece that is not to be had now. From NULL is written as zeroes.
 */
uint64_t whole_write(struct whole *whole, void *memory, uint64_t offset, const void *from,
		     uint64_t n_bytes);
uint64_t whole_read(struct whole *whole, const void *memory, uint64_t offset, void *to,
		    uint64_t n_bytes);
/* A writer waits for the piece at offset; waits no longer. */
void whole_want(struct whole *whole, uint64_t offset);
void whole_want_no_more(struct whole *whole, uint64_t offset);
