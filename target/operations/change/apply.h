/* SPDX-License-Identifier: BSD-3-Clause */
/* Applies a changed configuration to a running target, as a whole or not at all. Control thread. */
#pragma once

#include "base/error.h"
#include "target/operations/change/users.h"
#include "target/config/diff.h"
#include "target/engine/record/target.h"

enum apply_mode {
	APPLY_SHOW,	 /* changes nothing; reports the changes */
	APPLY_IF_UNUSED, /* refuses to take something from a connected host */
	APPLY_ALL,
};

struct apply_report {
	/* EXIT_OK: applied, or shown. Otherwise the message states why a valid file cannot be
	 * applied; it is "" if the file is invalid, which the messages below explain. */
	struct error error;
	bool is_applied;
	bool is_opening;	       /* of stores: nothing was changed yet, call again soon */
	struct config_changes changes; /* owned; none if the file is invalid */
	struct change_users users;     /* owned; hosts that lose what they use */
	char *messages; /* owned: lines, the errors of the file, as --check prints them */
	/* files that were made larger for a change that was not applied, and stay so */
	unsigned n_left;
};

/*
 * Reads and checks the file at path (NULL: the one of the start), compares it with what runs, and
 * applies it, unless the mode is APPLY_SHOW or forbids it. It waits for no store that is slow to
 * open, or that a removed namespace still has: is_opening, then, and the caller calls again with
 * the same path within seconds. The caller calls apply_report_free in any case.
 */
void apply_file(struct target *target, const char *path, enum apply_mode mode,
		struct apply_report *ret_report);
void apply_report_free(struct apply_report *report);
