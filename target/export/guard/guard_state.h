/* SPDX-License-Identifier: BSD-3-Clause */
/* What a guard keeps on disk: guard_text.c says how, state_file.c holds the files. */
#pragma once

#include "target/export/guard/guard.h"
#include "target/export/state_file.h"

enum {
	GUARD_FORMAT = 1,
	GUARD_NAME_BYTES = 48, /* UUID.json */
};

/* ---- who has the turn ---- */

/* guard->next becomes a copy of what is valid now; the owner changes it. */
void guard_begin_save(struct guard *guard);
/* Makes guard->next durable on a worker thread, and calls on_saved on the poller with 0 or -errno
 * (said in the log): what was valid before is kept then, or guard->is_unkept says that this could
 * not be done. Nothing is kept without a directory, or if the caller says so: then on_saved is called
 * at once. */
void guard_save(struct request *r, bool is_skipped, void (*on_saved)(struct request *r, int error));
/* For guard_visit: waits for nobody but the pollers themselves. */
bool guard_visit_nobody(const struct request *owner, struct pass *pass);

/* ---- control ---- */

void guard_file_name(const struct guard *guard, char name[GUARD_NAME_BYTES]);
/* Takes over what was kept. 0; or -errno with one line in why. */
int guard_load(struct guard *guard, char *why, size_t n);
/* Pollers have stopped: what is unkept is kept, if that can be done now. */
void guard_settle(struct guard *guard);

/* ---- guard_text.c: any thread ---- */

/* As text, to be freed; *ret_text is NULL when there is nothing to keep. 0 or -ENOMEM. */
int guard_format(const struct guard *guard, const struct guard_kept *kept, char **ret_text);
/* Takes it over into a new guard, before anybody enters. False: it is not as guard_format makes it. */
bool guard_parse(struct guard *guard, const char *text);
