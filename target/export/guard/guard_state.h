/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a guard as a record (store/record.h): guard_text.c has the format, guard_state.c
 * saves it, guard_adopt.c reads it. */
#pragma once

#include "target/export/guard/guard.h"

enum {
	GUARD_FORMAT = 1,
};

/* ---- the owner of the turn, on its poller ---- */

/* Whether other rblkd change the record, so that only guard_refresh knows what is valid. */
static inline bool guard_is_shared(const struct guard *guard)
{
	return guard->store && guard->store->is_shared;
}
/* Whether the record has all of the state, also what a restart would end. */
static inline bool guard_keeps_all(const struct guard *guard)
{
	return guard->store && (guard->store->is_shared || guard->store->boot_id);
}
/* Copies the current state to guard->next, for the owner to change. */
void guard_begin_save(struct guard *guard);
/*
 * Makes guard->next durable, and calls on_saved with 0 or -errno. After a failure the record holds
 * the state from before, or guard->is_unkept is set. Writes nothing without a store; or if
 * is_skipped, unless other rblkd share the store: on_saved is called from inside then.
 *
 * -ECANCELED: another rblkd has changed the record. Its state is valid now, and guard->next is gone
 * with what the owner had put there: the owner begins again.
 */
void guard_save(struct pass *owner, bool is_skipped,
		void (*on_saved)(struct pass *owner, int error));
/* Where other rblkd share the store: makes the state of the record valid, waits for commands that
 * it forbids, and calls on_fresh with 0 or -errno. Elsewhere on_fresh is called from inside. */
void guard_refresh(struct pass *owner, void (*on_fresh)(struct pass *owner, int error));

/* ---- control ---- */

/* Restores the state from the record. 0; or -errno and *error. */
int guard_load(struct guard *guard, struct error *error);
/* Before the first command arrives: takes over what guard_format_all of an earlier rblkd has
 * written. Where others share the record, it keeps the reservations that it has read there. As
 * guard_read. */
int guard_restore_all(struct guard *guard, const char *text);
/* Once pollers have stopped: saves an unkept state, if that is possible now. */
void guard_settle(struct guard *guard);

/* ---- guard_text.c: any thread ---- */

/* The state as text, which the caller frees; *ret_text is NULL without any state. 0 or -ENOMEM. */
int guard_format(const struct guard *guard, const struct guard_kept *kept, char **ret_text);
/* The same, also with what a restart or a loss of power ends: for guard_restore_all. */
int guard_format_all(const struct guard *guard, const struct guard_kept *kept, char **ret_text);
/* The state of a text, which the caller owns, without what has ended if the text is not of this
 * boot of the machine (boot_id; NULL: nothing has ended). 0; -EINVAL: guard_format never writes
 * such a text; -ENOMEM. */
int guard_read(const char *text, const char *boot_id, struct guard_kept *ret_kept);

/* ---- between these files, guard_adopt.c ---- */

/* Restores the state into a new guard, before the first command arrives. As guard_read. */
int guard_parse(struct guard *guard, const char *text);
/* What is valid now. The owner of the turn, or nothing can change it. */
struct guard_kept guard_valid(struct guard *guard);
/* Makes it valid; what was valid before stays the caller's. As guard_valid. */
void guard_publish(struct guard *guard, const struct guard_kept *kept);
/* Makes guard->next.reservation valid, which a turn has made durable. Returns the old one, or NULL;
 * the caller frees it when no poller uses it. */
struct reservation *guard_replace_reservation(struct guard *guard);
/* Prepares guard->saving.op for the owner; NULL: for control. */
void guard_prepare_op(struct guard *guard, struct pass *owner);
/* Logs once that the record may differ from what is valid (error), and once that it no longer does
 * (0). */
void guard_note(struct guard *guard, int error);
/* What rblkctl shows of saves and reads: one has failed with that -errno, or went well (0). */
void guard_count(struct guard *guard, int error);
/* guard_refresh for a shared store: reads the record in any case. */
void guard_reload(struct guard *guard, void (*on_read)(struct pass *owner, int error));
