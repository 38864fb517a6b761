/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a guard on disk: guard_text.c has the format, state_file.c the files. */
#pragma once

#include "target/export/guard/guard.h"
#include "target/export/state_file.h"

enum {
	GUARD_FORMAT = 1,
	GUARD_NAME_BYTES = 48, /* UUID.json */
};

/* ---- the owner of the turn, on its poller ---- */

/* Copies the current state to guard->next, for the owner to change. */
void guard_begin_save(struct guard *guard);
/* Makes guard->next durable on a worker thread, and calls on_saved with 0 or -errno. After a
 * failure the file holds the state from before, or guard->is_unkept is set. Writes nothing without
 * a directory or if is_skipped; on_saved is called from inside then. */
void guard_save(struct pass *owner, bool is_skipped,
		void (*on_saved)(struct pass *owner, int error));

/* ---- control ---- */

/* The name of its file in the state directory. */
void guard_file_name(const struct guard *guard, char name[GUARD_NAME_BYTES]);
/* Restores the state from the file. 0; or -errno and *error. */
int guard_load(struct guard *guard, struct error *error);
/* Once pollers have stopped: saves an unkept state, if that is possible now. */
void guard_settle(struct guard *guard);

/* ---- guard_text.c: any thread ---- */

/* The state as text, which the caller frees; *ret_text is NULL without any state. 0 or -ENOMEM. */
int guard_format(const struct guard *guard, const struct guard_kept *kept, char **ret_text);
/* Restores the state into a new guard, before the first command arrives. 0; -EINVAL: guard_format
 * never writes such a text; -ENOMEM. */
int guard_parse(struct guard *guard, const char *text);
