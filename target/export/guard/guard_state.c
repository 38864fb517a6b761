/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves a guard's state, and reads it at the next start. guard_text.c has the format.
 *
 *   format (worker) --> store --> saved
 *                        |  `---> the record has changed: guard_adopt.c; the owner begins again
 *                        `------> failed: a local record that may be new gets its old contents back
 *
 * A change that cannot be saved is refused, so the record must then hold the state from before. If
 * the new file is in place and only the sync of the directory fails, the old contents are written
 * once more. If that fails too, the file may be either one. is_unkept is then set until a write
 * succeeds: with the next change, or at the end of rblkd. A record that is shared is valid whatever
 * it holds, so there the next owner reads it first.
 *
 * A damaged record stops the start: serving a namespace without the reservation that protects it
 * would be worse.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "target/export/guard/guard.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_state.h"
#include "target/export/guard/guard_text.h"
#include "target/store/pool.h"

enum {
	CONFLICTS_MAX = 100, /* in a row; each means that another rblkd has made a change */
};

void guard_begin_save(struct guard *guard)
{
	check(guard->owner); /* the turn keeps the state as it is */
	guard->next = guard_valid(guard);
}

/* ---- steps of a save: the owner's poller ----------------------------------------------------- */

static struct guard *guard_of_op(struct record_op *op)
{
	return container_of(op, struct guard, saving.op);
}

static void end(struct guard *guard, int error)
{
	free(guard->saving.text);
	guard->saving.text = NULL;
	if (error != -ECANCELED)
		guard->saving.n_conflicts = 0;
	guard->saving.on_saved(guard->owner, error);
}

static void put(struct guard *guard, struct pass *owner, void (*done)(struct record_op *op))
{
	struct record_op *op = &guard->saving.op;

	guard_prepare_op(guard, owner);
	op->done = done;
	(op->text ? guard->store->ops->store : guard->store->ops->remove)(guard->store, op);
}

static int format(struct guard *guard)
{
	free(guard->saving.text);
	return guard_format(guard, &guard->saving.kept, &guard->saving.text);
}

/* Worker thread; the turn keeps the state as it is. */
static int format_work(struct backend_io *io)
{
	return format(container_of(io, struct guard, saving.io));
}

static void start_format(struct guard *guard, struct guard_kept kept,
			 void (*done)(struct backend_io *io, int error))
{
	guard->saving.kept = kept;
	guard->saving.io.done = done;
	backend_run(guard->owner->client->backends, &guard->saving.io, format_work);
}

/* ---- the old contents again ---- */

static void on_put_back(struct record_op *op)
{
	struct guard *guard = guard_of_op(op);

	guard->saving.version = op->version;
	guard_note(guard, op->error);
	end(guard, guard->saving.error);
}

static void on_old_formatted(struct backend_io *io, int error)
{
	struct guard *guard = container_of(io, struct guard, saving.io);

	if (error < 0) {
		guard_note(guard, error);
		end(guard, guard->saving.error);
		return;
	}
	put(guard, guard->owner, on_put_back);
}

/* ---- another rblkd was faster ---- */

static void on_others_read(struct pass *owner, int error)
{
	end(owner->guard, error ? error : -ECANCELED);
}

/* Frees what the owner has made for a state that is no longer there. */
static void drop_next(struct guard *guard)
{
	struct guard_kept now = guard_valid(guard);

	if (guard->next.reservation != now.reservation)
		free(guard->next.reservation);
	if (guard->next.bad_blocks != now.bad_blocks)
		free(guard->next.bad_blocks);
	guard->next = (struct guard_kept){0};
}

static void begin_again(struct guard *guard)
{
	drop_next(guard);
	if (++guard->saving.n_conflicts <= CONFLICTS_MAX) {
		guard_reload(guard, on_others_read);
		return;
	}
	guard_count(guard, -EBUSY);
	end(guard, -EBUSY);
}

/* ---- */

static void on_stored(struct record_op *op)
{
	struct guard *guard = guard_of_op(op);

	if (op->error == -ECANCELED) {
		atomic_fetch_add(&guard->n_state_conflicts, 1);
		begin_again(guard);
		return;
	}
	guard->saving.version = op->version;
	guard_count(guard, op->error);
	if (op->error == 0) {
		guard_note(guard, 0);
		end(guard, 0);
		return;
	}
	guard->saving.error = op->error;
	if (!op->is_old && !guard_is_shared(guard)) {
		start_format(guard, guard_valid(guard), on_old_formatted);
		return;
	}
	if (!op->is_old)
		guard_note(guard, op->error);
	end(guard, op->error);
}

static void on_formatted(struct backend_io *io, int error)
{
	struct guard *guard = container_of(io, struct guard, saving.io);

	if (error < 0) {
		guard_count(guard, error);
		end(guard, error);
		return;
	}
	put(guard, guard->owner, on_stored);
}

void guard_save(struct pass *owner, bool is_skipped, void (*on_saved)(struct pass *, int))
{
	struct guard *guard = owner->guard;
	bool is_unkept = atomic_load(&guard->is_unkept);

	check(guard->owner == owner);
	if (!guard->store || (is_skipped && !is_unkept && !guard_keeps_all(guard))) {
		on_saved(owner, 0);
		return;
	}
	guard->saving.on_saved = on_saved;
	if (is_unkept && guard->store->is_shared)
		begin_again(guard);
	else
		start_format(guard, guard->next, on_formatted);
}

/* ---- control --------------------------------------------------------------------------------- */

/* The state is as it was before the change that was refused. */
static int put_back_now(struct guard *guard)
{
	int r;

	guard->saving.kept = guard_valid(guard);
	r = format(guard);
	if (r == 0) {
		put(guard, NULL, NULL);
		r = guard->saving.op.error;
	}
	free(guard->saving.text);
	guard->saving.text = NULL;
	return r;
}

void guard_settle(struct guard *guard)
{
	int r;

	if (!atomic_load(&guard->is_unkept) || guard->store->is_shared)
		return;
	r = put_back_now(guard);
	guard_note(guard, r);
	if (r < 0)
		log_err("%s/%s: still cannot be written: %s: the next start may find what a command was refused",
			guard->store->place, guard->record, strerror(-r));
}

static int explain_load(const struct guard *guard, int r, struct error *error)
{
	const struct record_store *store = guard->store;

	if (record_is_damaged(r) && store->is_shared)
		return error_refuse(
			error, r,
			"%s/%s is damaged: it holds this namespace's reservations; remove that object of the pool (rados rm) to serve the namespace without them",
			store->place, guard->record);
	if (record_is_damaged(r))
		return error_refuse(
			error, r,
			"%s/%s is damaged: it holds this namespace's reservations; remove it to serve the namespace without them",
			store->place, guard->record);
	return error_refuse(error, r, "cannot read %s/%s: %s", store->place, guard->record,
			    r == -ENOMEM ? "out of memory" : record_strerror(r));
}

int guard_load(struct guard *guard, struct error *error)
{
	struct record_op *op = &guard->saving.op;
	int r;

	if (!guard->store)
		return 0;
	guard_prepare_op(guard, NULL);
	guard->store->ops->load(guard->store, op);
	r = op->error;
	if (r == 0 && op->found)
		r = guard_parse(guard, op->found);
	guard->saving.version = op->version;
	free(op->found);
	return r < 0 ? explain_load(guard, r, error) : 0;
}
