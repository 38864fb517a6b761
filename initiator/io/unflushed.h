/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which writes the targets have acknowledged but not flushed: where a Flush has to go, and what is
 * lost when a target has lost power.
 *
 * Flushes are numbered in the order of their sending, over all queues of a volume. For each path
 * the volume keeps the number that the next Flush had when that path last acknowledged a write. A
 * Flush that succeeds by a path covers every write of that path with its number or a lower one, on
 * all queues. The data path pays two loads for a write and nothing for a read.
 *
 *   queue A   write acknowledged: 1            write acknowledged: 2
 *   queue B                       Flush 1 sent                      Flush 1 succeeds
 *
 * Here the write with number 2 is not covered
 *
 * A Flush is for the commands that its controller has completed (Base 2.0, Flush), so it
 * covers nothing of another path; io_flush.c sends it by each path that needs it.
 *
 * If power was lost with writes that are not covered, the next Flush fails, once, as fsync does
 * after a failed write-back. A write with FUA does not: it promises nothing about earlier writes,
 * and if it took the report the Flush that waits for it would succeed.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "initiator/io/policy.h"

struct unflushed_path {
	/* Thread: any */
	_Atomic uint64_t noted;	  /* of the last write that was acknowledged; 0: none was */
	_Atomic uint64_t n_safe;  /* writes up to this number are flushed */
	_Atomic bool was_flushed; /* false: an earlier process may have left writes there */
	_Atomic bool is_up;	  /* live, and ANA lets I/O through: written by control */
};

/* The unflushed writes of a volume. Zeroed it is not valid: unflushed_init. */
struct unflushed {
	/* Thread: any */
	_Atomic uint64_t next;	     /* number of the next Flush, from 1 */
	_Atomic uint64_t n_reported; /* writes up to this number are flushed, or reported as lost */
	_Atomic bool must_report;    /* the next Flush fails */
	struct unflushed_path paths[VOLUME_PATHS_MAX]; /* by the path's index */
};

/* Control: no write is acknowledged so far. */
void unflushed_init(struct unflushed *unflushed);

/* ---- I/O loop ---- */

/* Apart: for the first write of a path after a Flush. */
void unflushed_note_first(struct unflushed *unflushed, unsigned path, uint64_t number);
/* The path has acknowledged a write without FUA, or another change of the namespace. */
static inline void unflushed_note(struct unflushed *unflushed, unsigned path)
{
	uint64_t number = atomic_load_explicit(&unflushed->next, memory_order_relaxed);

	if (atomic_load_explicit(&unflushed->paths[path].noted, memory_order_relaxed) < number)
		unflushed_note_first(unflushed, path, number);
}
/* A Flush is about to be sent: its number, for the functions below. */
uint64_t unflushed_begin(struct unflushed *unflushed);
/* The path may have writes that the Flush of this number is for. */
bool unflushed_needs(const struct unflushed *unflushed, unsigned path, uint64_t number);
bool unflushed_is_up(const struct unflushed *unflushed, unsigned path);
/* That Flush has succeeded by this path. */
void unflushed_flushed(struct unflushed *unflushed, unsigned path, uint64_t number);
/* A Flush is about to be sent or to succeed: true, once, if it must fail instead. */
bool unflushed_take_report(struct unflushed *unflushed);

/* ---- control ---- */

/* A Flush can be sent by the path, or none can any more. */
void unflushed_set_up(struct unflushed *unflushed, unsigned path, bool is_up);
/* Another path gets this index. */
void unflushed_forget(struct unflushed *unflushed, unsigned path);
/* The Flush that covers all writes that the path has acknowledged; 0: there were none. */
uint64_t unflushed_number(const struct unflushed *unflushed, unsigned path);
/* That Flush, or a later one, has succeeded by the path, or such writes were reported. */
bool unflushed_is_covered(const struct unflushed *unflushed, unsigned path, uint64_t number);
/* Power was lost under such writes: the next Flush fails; only later writes count from here on. */
void unflushed_report(struct unflushed *unflushed);
