/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write Uncorrectable: blocks that a host has declared lost, until they are written again. The
 * queue's poller.
 *
 * The medium knows nothing of it: the guard keeps a set of ranges. Reads that touch one end with
 * Unrecovered Read Error; a write that touches one takes a turn when its data is on the medium, and
 * takes the blocks out of the set, before it is answered. The set is kept in the state directory, so
 * that the blocks are still lost after a restart; without one the command is not offered. Of a
 * namespace in memory the set is forgotten as its blocks are.
 */
#include <stdlib.h>

#include "base/check.h"
#include "target/io/bad_blocks.h"
#include "target/guard/guard_state.h"
#include "target/io/io.h"

bool uncorrectable_is_offered(const struct namespace *ns)
{
	return ns->guard->directory || ns->guard->is_volatile;
}

/* ---- changing the set ----------------------------------------------------------------------- */

static struct bad_blocks *current(const struct guard *guard)
{
	return atomic_load_explicit(&guard->bad_blocks, memory_order_acquire);
}

/* Nobody holds the old set any more. */
static void on_visited(struct request *r)
{
	free(r->old_state);
	guard_end_turn(r);
	request_run(r, r->sqe.opcode == NVME_IO_WRITE_UNCORRECTABLE
			       ? request_end(r, NVME_OK)
			       : io_end(r, NVME_OK));
}

static void on_saved(struct request *r, int error)
{
	struct guard *guard = r->pass.guard;
	struct bad_blocks *set = guard->next.bad_blocks;

	if (error < 0) {
		free(set);
		guard_finish_turn(r, NVME_INTERNAL_ERROR);
		return;
	}
	r->old_state = current(guard);
	atomic_store_explicit(&guard->bad_blocks, set, memory_order_release);
	guard_set_flag(guard, GUARD_BAD_BLOCKS, set->n > 0);
	guard_visit(r, guard_visit_nobody, on_visited);
}

static void change(struct request *r, struct bad_blocks *set)
{
	struct guard *guard = r->pass.guard;

	if (!set || set->n > BAD_RANGES_MAX) {
		free(set);
		guard_finish_turn(r, NVME_WRITE_FAULT | NVME_DNR);
		return;
	}
	guard_begin_save(guard);
	guard->next.bad_blocks = set;
	guard_save(r, guard->is_volatile, on_saved);
}

/* ---- Write Uncorrectable -------------------------------------------------------------------- */

static void on_turn(struct request *r)
{
	enum nvme_status status = guard_check(r);

	if (status != NVME_OK)
		guard_finish_turn(r, status);
	else
		change(r, bad_blocks_add(current(r->pass.guard), r->pass.slba,
					 r->pass.n_blocks));
}

static enum request_state execute(struct request *r)
{
	return (enum request_state)guard_take_turn(r, on_turn);
}

enum nvme_status uncorrectable_parse(struct request *r)
{
	enum nvme_status status = io_find_blocks(r, ACCESS_WRITE);

	if (status != NVME_OK)
		return status;
	if (!uncorrectable_is_offered(r->ns))
		return NVME_INVALID_OPCODE | NVME_DNR;
	r->takes_turn = true;
	r->execute = execute;
	return NVME_OK;
}

/* ---- blocks that are written ---------------------------------------------------------------- */

bool uncorrectable_must_heal(const struct request *r)
{
	switch (r->sqe.opcode) {
	case NVME_IO_WRITE:
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_COPY:
		return r->pass.guard && guard_flags(r->pass.guard) & GUARD_BAD_BLOCKS &&
		       guard_has_bad(r->pass.guard, r->pass.slba, r->pass.n_blocks);
	default:
		return false;
	}
}

static void on_heal_turn(struct request *r)
{
	change(r,
	       bad_blocks_remove(current(r->pass.guard), r->pass.slba, r->pass.n_blocks));
}

enum request_state uncorrectable_heal(struct request *r)
{
	r->is_started = true;
	return (enum request_state)guard_take_turn(r, on_heal_turn);
}
