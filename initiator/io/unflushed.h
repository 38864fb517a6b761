/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which writes the target has acknowledged but not flushed: asked when the target has lost power.
 *
 * Flushes are numbered in the order of their sending, over all queues of a volume. A queue keeps,
 * with each acknowledged write, the number that the next Flush will get. So a Flush that succeeds
 * covers every write that carries its number or a lower one, on all queues, and the data path pays
 * a load and a store for a write and nothing for a read.
 *
 *   queue A   write acknowledged: 1            write acknowledged: 2
 *   queue B                       Flush 1 sent                      Flush 1 succeeds
 *
 * Here the write with number 2 is not covered
 *
 * If power was lost with writes that are not covered, the next Flush fails, once, as fsync does
 * after a failed write-back. A write with FUA does not: it promises nothing about earlier writes,
 * and if it took the report the Flush that waits for it would succeed.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a volume. Zeroed it is not valid: unflushed_init. */
struct unflushed {
	/* Thread: any */
	_Atomic uint64_t next;	   /* number of the next Flush, from 1 */
	_Atomic uint64_t n_safe;   /* writes up to this number are flushed, or reported as lost */
	_Atomic bool must_report;  /* the next Flush fails */
	_Atomic uint64_t departed; /* highest mark of the queues that were removed */
};

/* Of a queue: the number kept with the last write that was acknowledged; 0: none was. */
struct unflushed_mark {
	/* Thread: I/O loop writes, control reads */
	_Atomic uint64_t last;
};

void unflushed_init(struct unflushed *unflushed);

/* ---- I/O loop ---- */

/* The target has acknowledged a write without FUA, or another change of the namespace. */
static inline void unflushed_note(const struct unflushed *unflushed, struct unflushed_mark *mark)
{
	atomic_store_explicit(&mark->last,
			      atomic_load_explicit(&unflushed->next, memory_order_relaxed),
			      memory_order_relaxed);
}
/* A Flush is about to be sent: its number, for unflushed_flushed. */
uint64_t unflushed_begin(struct unflushed *unflushed);
/* That Flush has succeeded. */
void unflushed_flushed(struct unflushed *unflushed, uint64_t number);
/* A Flush is about to be sent: true, once, if it must fail instead. */
bool unflushed_take_report(struct unflushed *unflushed);

/* ---- control, while no queue is connected ---- */

/* The queue of this mark is removed. */
void unflushed_leave(struct unflushed *unflushed, const struct unflushed_mark *mark);
/* Whether a queue with this mark (NULL: one that was removed) has writes that are not flushed. */
bool unflushed_has(const struct unflushed *unflushed, const struct unflushed_mark *mark);
/* Power was lost under such writes: the next Flush fails; only later writes count from here on. */
void unflushed_report(struct unflushed *unflushed);
