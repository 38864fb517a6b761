/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a guard as a record (store/record.h): guard_text.c has the format, guard_state.c
 * saves it, guard_adopt.c reads it. */
#pragma once

#include "target/export/guard/guard_impl.h"

/* ---- the owner of the turn, on its poller ---- */

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

/* ---- control ---- */

/* Restores the state from the record. 0; or -errno and *error. */
int guard_load(struct guard *guard, struct error *error);
/* Once pollers have stopped: saves an unkept state, if that is possible now. */
void guard_settle(struct guard *guard);
