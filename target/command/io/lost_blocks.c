/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of lost blocks of a namespace. Poller of the queue.
 *
 * The medium is not involved: the guard of the namespace has a set of ranges. A read that touches
 * one of them ends with Unrecovered Read Error. A write that touches one takes a turn when its data
 * is on the medium, and removes the blocks from the set before its answer. It does so once: a
 * declaration in between counts as later than the write. The state directory saves the set over a
 * restart; without a directory the command is not offered. For a namespace in memory the set ends
 * with the contents.
 *
 * A write must not fail because the set is full: its data is on the medium. A write into the middle
 * of a range makes two ranges of it. So a declaration is refused if later writes could make too
 * many ranges of the set (bad_blocks_worst).
 */
#include <stdlib.h>

#include "target/command/io/lost_blocks.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/request_settle.h"
#include "target/engine/request/request_turn.h"
#include "target/export/bad_blocks.h"
#include "target/export/guard/guard_new.h"
#include "target/export/guard/guard_state.h"

/* ---- changing the set ----------------------------------------------------------------------- */

static struct bad_blocks *current(const struct guard *guard)
{
	return atomic_load_explicit(&guard->bad_blocks, memory_order_acquire);
}

/* After the turn the next owner may publish another set at once: do not read the guard. */
static void finish(struct request *r, enum nvme_status status)
{
	guard_end_turn(&r->pass);
	request_run(r, request_settle(r, status));
}

/* No poller holds the old set any more. */
static void on_visited(struct pass *pass)
{
	struct request *r = request_of_pass(pass);

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
	guard_visit(&r->pass, guard_visit_none, on_visited);
}

static void change(struct request *r, struct bad_blocks *set)
{
	struct guard *guard = r->pass.guard;

	if (!set) { /* out of memory: the host may retry */
		finish(r, NVME_INTERNAL_ERROR);
		return;
	}
	guard_begin_save(guard);
	guard->next.bad_blocks = set;
	request_save(r, guard->is_volatile, on_saved);
}

/* ---- declaring blocks lost ------------------------------------------------------------------ */

static bool is_too_much(const struct bad_blocks *now, const struct bad_blocks *next)
{
	return bad_blocks_worst(next) > BAD_RANGES_WORST ||
	       (next->n > BAD_RANGES_MAX && next->n > (now ? now->n : 0));
}

static void on_turn(struct request *r)
{
	const struct bad_blocks *now = current(r->pass.guard);
	enum nvme_status status = guard_check(&r->pass);
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

enum request_state lost_blocks_declare(struct request *r)
{
	return request_take_turn(r, on_turn);
}

/* ---- blocks that were written --------------------------------------------------------------- */

static void on_heal_turn(struct request *r)
{
	change(r, bad_blocks_remove(current(r->pass.guard), r->pass.slba, r->pass.n_blocks));
}

bool lost_blocks_are_written(const struct request *r)
{
	const struct pass *pass = &r->pass;

	return pass->guard && guard_flags(pass->guard) & GUARD_BAD_BLOCKS &&
	       guard_has_bad(pass->guard, pass->slba, pass->n_blocks);
}

enum request_state lost_blocks_heal(struct request *r)
{
	r->turns = TURN_GIVEN;
	return request_take_turn(r, on_heal_turn);
}
