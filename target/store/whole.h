/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whole blocks: a read of a block returns it as one write left it. A disk ensures that itself; this
 * file orders moves to and from memory, by a processor or by an RDMA device.
 *
 * A piece of 4 KiB has a mark, which it shares with pieces that are multiples of 32 MiB away.
 * Readers share a mark: a processor while it copies that piece, a device while it reads the whole
 * range of its command, which may take long. A writer has it exclusively, while it copies one
 * piece, and never waits with such a mark. A writer that finds readers announces that it wants the
 * mark. That keeps out further devices, which could otherwise follow each other without end; a
 * processor that copies delays it by one copy only.
 *
 * Any thread; nothing here blocks.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

enum {
	WHOLE_SHIFT = 12,
	WHOLE_BYTES = 1 << WHOLE_SHIFT,
	WHOLE_MARKS = 8192,
	WHOLE_WANTED_SHIFT = 40, /* readers below this bit, waiting writers above */
	WHOLE_HOLD_SHIFT = 48,
};

#define WHOLE_READERS (((uint64_t)1 << WHOLE_WANTED_SHIFT) - 1)
#define WHOLE_WANTED  ((uint64_t)1 << WHOLE_WANTED_SHIFT)
#define WHOLE_CLOSED  ((uint64_t)1 << 63)
#define WHOLE_MANY    ((uint64_t)1 << 63)

typedef _Atomic uint64_t whole_mark;

/* Aligned to its size, so that a mark's address gives the next mark. */
struct whole {
	_Alignas(WHOLE_MARKS * sizeof(whole_mark)) whole_mark marks[WHOLE_MARKS];
};

/*
 * The marks that a device holds: the address of the first mark; WHOLE_MANY, and the number of
 * further ones above WHOLE_HOLD_SHIFT, if there are any. 0: nothing.
 */
typedef uint64_t whole_hold;

/* NULL: no memory. */
struct whole *whole_new(void);
/* Accepts NULL. */
void whole_free(struct whole *whole);

/* Whether one mark is enough. */
static inline bool whole_is_one(uint64_t offset, uint32_t n_bytes)
{
	return !(((offset + n_bytes - 1) ^ offset) >> WHOLE_SHIFT);
}

/* For a device that will read this range: takes one mark; any range. False: not possible now. */
static inline bool whole_take_one(struct whole *whole, uint64_t offset, whole_hold *ret_hold)
{
	uint64_t at = offset >> (WHOLE_SHIFT - 3) & (WHOLE_MARKS - 1) << 3;
	whole_mark *mark = (whole_mark *)((uintptr_t)whole + at);
	uint64_t before = atomic_fetch_add_explicit(mark, 1, memory_order_acquire);

	*ret_hold = (uintptr_t)mark;
	if (LIKELY(!(before >> WHOLE_WANTED_SHIFT)))
		return true;
	atomic_fetch_sub_explicit(mark, 1, memory_order_relaxed);
	*ret_hold = 0;
	return false;
}
bool whole_take(struct whole *whole, uint64_t offset, uint32_t n_bytes, whole_hold *ret_hold);

/* Whether the hold is of several pieces: whole_give returns it, not whole_give_one. */
static inline bool whole_is_many(whole_hold hold)
{
	return hold & WHOLE_MANY;
}

/* The device has read it: gives back one mark; any. Accept 0. */
static inline void whole_give_one(whole_hold hold)
{
	if (LIKELY(hold != 0))
		atomic_fetch_sub_explicit((whole_mark *)(uintptr_t)hold, 1, memory_order_release);
}
void whole_give(whole_hold hold);

/*
 * Copy n_bytes at offset of memory, piece by piece. Return the bytes copied: all, or those up to a
 * piece that is in use. A write from NULL writes zeroes.
 */
uint64_t whole_write(struct whole *whole, void *memory, uint64_t offset, const void *from,
		     uint64_t n_bytes);
uint64_t whole_read(struct whole *whole, const void *memory, uint64_t offset, void *to,
		    uint64_t n_bytes);
/* A writer begins to wait for the piece at offset; stops waiting. */
void whole_want(struct whole *whole, uint64_t offset);
void whole_want_no_more(struct whole *whole, uint64_t offset);
