/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks of a namespace that a host has declared lost (Write Uncorrectable), until they are written
 * again. The queue's poller.
 *
 * The medium knows nothing of it: the guard keeps a set of ranges. Reads that touch one end with
 * Unrecovered Read Error; a write that touches one takes a turn when its data is on the medium, and
 * takes the blocks out of the set, before it is answered. It does so once: a host that declares them
 * lost again meanwhile has done so after the write. The set is kept in the state directory, so
 * that the blocks are still lost after a restart; without one the command is not offered. Of a
 * namespace in memory the set is forgotten as its blocks are.
 *
 * A write must not fail because the set is full: its data is on the medium. Writes into the middle of
 * a range make two of it, so Write Uncorrectable is refused beyond what would be too many ranges after
 * any writes (bad_blocks_worst).
 */
#include <stdlib.h>

#include "target/export/bad_blocks.h"
#include "target/export/guard/guard_state.h"
#include "target/command/io/io.h"

/* ---- changing the set ----------------------------------------------------------------------- */

static struct bad_blocks *current(const struct guard *guard)
{
	return atomic_load_explicit(&guard->bad_blocks, memory_order_acquire);
}

/* The next owner may publish another set at once: nothing of the guard is looked at any more. */
static void finish(struct request *r, enum nvme_status status)
{
	guard_end_turn(r);
	request_run(r, io_settle(r, status));
}

/* No poller holds the old set any more. */
static void on_visited(struct request *r)
{
	free(r->old_state);
	finish(r, NVME_OK);
}

static void on_saved(struct request *r, int error)
{
	struct guard *guard = r->pass.guard;
	struct bad_blocks *set = guard->next.bad_blocks;

	if (error < 0) {
		free(set);
		finish(r, NVME_INTERNAL_ERROR);
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

	if (!set) { /* no memory: the host may try again */
		finish(r, NVME_INTERNAL_ERROR);
		return;
	}
	guard_begin_save(guard);
	guard->next.bad_blocks = set;
	guard_save(r, guard->is_volatile, on_saved);
}

/* ---- blocks that are declared lost ---------------------------------------------------------- */

static bool is_too_much(const struct bad_blocks *now, const struct bad_blocks *next)
{
	return bad_blocks_worst(next) > BAD_RANGES_WORST ||
	       (next->n > BAD_RANGES_MAX && next->n > (now ? now->n : 0));
}

static void on_turn(struct request *r)
{
	const struct bad_blocks *now = current(r->pass.guard);
	enum nvme_status status = guard_check(r);
	struct bad_blocks *next;

	if (status != NVME_OK) {
		finish(r, status);
		return;
	}
	next = bad_blocks_add(now, r->pass.slba, r->pass.n_blocks);
	if (next && is_too_much(now, next)) {
		free(next);
		finish(r, NVME_COMMAND_SIZE_LIMIT | NVME_DNR);
		return;
	}
	change(r, next);
}

enum request_state uncorrectable_execute(struct request *r)
{
	return (enum request_state)guard_take_turn(r, on_turn);
}

/* ---- blocks that are written ---------------------------------------------------------------- */

static void on_heal_turn(struct request *r)
{
	change(r, bad_blocks_remove(current(r->pass.guard), r->pass.slba, r->pass.n_blocks));
}

enum request_state uncorrectable_heal(struct request *r)
{
	r->is_started = true;
	return (enum request_state)guard_take_turn(r, on_heal_turn);
}
