/* SPDX-License-Identifier: BSD-3-Clause */
/* What a guard keeps on disk: guard_text.c has the format, state_file.c the files. */
#pragma once

#include "target/export/guard/guard.h"
#include "target/export/state_file.h"

enum {
	GUARD_FORMAT = 1,
	GUARD_NAME_BYTES = 48, /* UUID.json */
};

/* ---- the owner of the turn, on its poller ---- */

/* guard->next becomes a copy of what is valid now; the owner changes it. */
void guard_begin_save(struct guard *guard);
/* Makes guard->next durable on a worker thread, and calls on_saved with 0 or -errno: then the
 * file holds what was valid before, or guard->is_unkept is set. Nothing is written without a
 * directory, or if the caller wishes so (is_skipped): on_saved is called from inside then. */
void guard_save(struct pass *owner, bool is_skipped,
		void (*on_saved)(struct pass *owner, int error));

/* ---- control ---- */

void guard_file_name(const struct guard *guard, char name[GUARD_NAME_BYTES]);
/* Takes over what was kept. 0; or -errno with one line in why. */
int guard_load(struct guard *guard, char *why, size_t n);
/* Pollers have stopped: what is unkept is kept, if that can be done now. */
void guard_settle(struct guard *guard);

/* ---- guard_text.c: any thread ---- */

/* As text, to be freed; *ret_text is NULL when there is nothing to keep. 0 or -ENOMEM. */
int guard_format(const struct guard *guard, const struct guard_kept *kept, char **ret_text);
/* Takes it over into a new guard, before the first command comes. False: it is not as
 * guard_format makes it. */
bool guard_parse(struct guard *guard, const char *text);
