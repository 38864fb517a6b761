/* SPDX-License-Identifier: BSD-3-Clause */
/* A changed configuration, applied to a running target as a whole or not at all. Control thread. */
#pragma once

#include "base/args.h"
#include "target/operations/change/users.h"
#include "target/config/diff.h"
#include "target/engine/target.h"

enum apply_mode {
	APPLY_SHOW,	 /* nothing is changed: what would be */
	APPLY_IF_UNUSED, /* refused when it takes something from a host that is connected */
	APPLY_ALL,
};

struct apply_report {
	enum exit_code code;
	bool is_applied;
	struct config_changes changes; /* owned; of a file that is wrong there are none */
	struct change_users users;     /* owned; hosts that lose what they use */
	char *messages;	   /* owned: lines, what is wrong with the file, as --check prints it */
	char refusal[256]; /* one line: why a right file cannot be applied; or "" */
	unsigned n_left;   /* files that were made larger for what is not applied, and stay so */
};

/*
 * Reads and checks the file at path (NULL: the one of the start), compares it with what runs, and,
 * unless it is only for show or the mode forbids it, does it. The report needs apply_report_free in
 * any case.
 */
void apply_file(struct target *target, const char *path, enum apply_mode mode,
		struct apply_report *ret_report);
void apply_report_free(struct apply_report *report);
/* Logs that the file at path was applied, and from which hosts it took what away. */
void apply_log(const char *path, const struct apply_report *report);
/* SIGHUP: the file of the start; the log tells. */
void apply_and_log(struct target *target);
