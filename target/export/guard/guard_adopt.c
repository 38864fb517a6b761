/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   load --> the version is known: done
 *     `----> parse (worker) --> published --> visit: commands that it forbids leave --> done
 *
 * All of it is in a turn of one owner, on its poller. A visit ends when no poller uses the old
 * state, so that it can be freed (guard.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "target/export/bad_blocks.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard.h"
#include "target/export/guard/guard_new.h"
#include "target/export/guard/guard_text.h"
#include "target/export/guard/reservation.h"
#include "target/store/pool.h"

struct guard_kept guard_valid(struct guard *guard)
{
	return (struct guard_kept){
		.reservation = atomic_load(&guard->reservation),
		.bad_blocks = atomic_load(&guard->bad_blocks),
		.write_protect = atomic_load(&guard->write_protect),
	};
}

void guard_publish(struct guard *guard, const struct guard_kept *kept)
{
	pthread_mutex_lock(&guard->lock);
	atomic_store_explicit(&guard->reservation, kept->reservation, memory_order_release);
	pthread_mutex_unlock(&guard->lock);
	atomic_store_explicit(&guard->bad_blocks, kept->bad_blocks, memory_order_release);
	atomic_store(&guard->write_protect, kept->write_protect);
	guard_set_flag(guard, GUARD_RESERVED, kept->reservation && kept->reservation->type);
	guard_set_flag(guard, GUARD_BAD_BLOCKS, kept->bad_blocks && kept->bad_blocks->n);
	guard_set_flag(guard, GUARD_PROTECTED, kept->write_protect != NVME_WP_NONE);
}

struct reservation *guard_replace_reservation(struct guard *guard)
{
	struct reservation *old = atomic_load(&guard->reservation), *next = guard->next.reservation;

	pthread_mutex_lock(&guard->lock);
	atomic_store_explicit(&guard->reservation, next, memory_order_release);
	pthread_mutex_unlock(&guard->lock);
	guard_set_flag(guard, GUARD_RESERVED, next->type);
	return old;
}

int guard_parse(struct guard *guard, const char *text)
{
	const char *boot_id = guard->store ? guard->store->boot_id : NULL;
	struct guard_kept kept;
	int r = guard_read(text, boot_id, &kept);

	if (r == 0)
		guard_publish(guard, &kept);
	return r;
}

int guard_restore_all(struct guard *guard, const char *text)
{
	struct guard_kept kept, read = guard_valid(guard), unused = read;
	int r = guard_read(text, NULL, &kept);

	if (r < 0)
		return r;
	if (guard_is_shared(guard)) {
		unused = kept;
		kept.reservation = read.reservation;
		kept.bad_blocks = read.bad_blocks;
		if (kept.write_protect != NVME_WP_UNTIL_POWER_CYCLE)
			kept.write_protect = read.write_protect;
	}
	guard_publish(guard, &kept);
	free(unused.reservation);
	free(unused.bad_blocks);
	return 0;
}

void guard_note(struct guard *guard, int error)
{
	const char *place = guard->store->place;
	bool is_unkept = error < 0;

	if (atomic_exchange(&guard->is_unkept, is_unkept) == is_unkept)
		return;
	if (!is_unkept)
		log_info("%s/%s: it holds what is valid again", place, guard->record);
	else if (guard->store->is_shared)
		log_err("%s/%s: it may hold what a command was refused: %s: the next change or report reads it first",
			place, guard->record, record_strerror(error));
	else
		log_err("%s/%s: it may hold what a command was refused, and cannot be put back: %s: after a crash the refused may be valid; set the directory right, then restart rblkd in order",
			place, guard->record, record_strerror(error));
}

void guard_prepare_op(struct guard *guard, struct pass *owner)
{
	struct record_op *op = &guard->saving.op;

	*op = (struct record_op){
		.loop = owner ? owner->client->loop : NULL,
		.thread = owner ? owner->client->backends : NULL,
		.name = guard->record,
		.text = guard->saving.text,
		.version = guard->saving.version,
	};
}

void guard_count(struct guard *guard, int error)
{
	atomic_store(&guard->state_error, error);
	if (error < 0)
		atomic_fetch_add(&guard->n_state_errors, 1);
}

/* ---- reading, in a turn ---- */

static void end(struct guard *guard, int error)
{
	free(guard->saving.text);
	guard->saving.text = NULL;
	guard_count(guard, error);
	if (error == 0)
		guard_note(guard, 0);
	guard->saving.on_read(guard->owner, error);
}

static void on_adopted(struct pass *owner)
{
	struct guard *guard = owner->guard;

	free(guard->saving.old.reservation);
	free(guard->saving.old.bad_blocks);
	guard->saving.old = (struct guard_kept){0};
	end(guard, 0);
}

static bool must_leave(struct pass *owner, struct pass *pass)
{
	return pass != owner && pass->is_inside && guard_check(pass) != NVME_OK;
}

/* Write protection until the next start is of this rblkd alone: no record has it. */
static void adopt(struct guard *guard)
{
	struct guard_kept *kept = &guard->saving.kept;

	guard->saving.old = guard_valid(guard);
	if (guard->saving.old.write_protect == NVME_WP_UNTIL_POWER_CYCLE)
		kept->write_protect = NVME_WP_UNTIL_POWER_CYCLE;
	guard_publish(guard, kept);
	guard->saving.version = guard->saving.op.version;
	guard_visit(guard->owner, must_leave, on_adopted);
}

/* Worker thread */
static int parse(struct backend_io *io)
{
	struct guard *guard = container_of(io, struct guard, saving.io);

	return guard_read(guard->saving.text, NULL, &guard->saving.kept);
}

static void on_parsed(struct backend_io *io, int error)
{
	struct guard *guard = container_of(io, struct guard, saving.io);

	if (error == 0)
		adopt(guard);
	else
		end(guard, error);
}

static void on_loaded(struct record_op *op)
{
	struct guard *guard = container_of(op, struct guard, saving.op);

	free(guard->saving.text);
	guard->saving.text = op->found;
	if (op->error < 0 || op->version == guard->saving.version) {
		end(guard, op->error);
		return;
	}
	if (!op->found) {
		guard->saving.kept = (struct guard_kept){.write_protect = NVME_WP_NONE};
		adopt(guard);
		return;
	}
	guard->saving.io.done = on_parsed;
	backend_run(guard->owner->client->backends, &guard->saving.io, parse);
}

void guard_reload(struct guard *guard, void (*on_read)(struct pass *owner, int error))
{
	check(guard->owner);
	guard->saving.on_read = on_read;
	guard_prepare_op(guard, guard->owner);
	guard->saving.op.done = on_loaded;
	guard->store->ops->load(guard->store, &guard->saving.op);
}

void guard_refresh(struct pass *owner, void (*on_fresh)(struct pass *owner, int error))
{
	struct guard *guard = owner->guard;

	check(guard->owner == owner);
	if (guard_is_shared(guard))
		guard_reload(guard, on_fresh);
	else
		on_fresh(owner, 0);
}
