/* SPDX-License-Identifier: BSD-3-Clause */
/* A changed configuration, applied to a running target as a whole or not at all. Control thread. */
#pragma once

#include "base/args.h"
#include "target/config/diff.h"
#include "target/target.h"

struct apply_report {
	enum exit_code code;
	bool is_applied;
	struct config_changes changes; /* owned; of a file that is wrong there are none */
	char *messages; /* owned: lines, what is wrong with the file, as --check prints it */
	char refusal[256]; /* one line: why a right file cannot be applied; or "" */
};

/*
 * Reads and checks the file at path (NULL: the one of the start), compares it with what runs, and,
 * unless it is only for show, does it. The report needs apply_report_free in any case.
 */
void apply_file(struct target *target, const char *path, bool is_for_show,
		struct apply_report *ret_report);
void apply_report_free(struct apply_report *report);
/* SIGHUP: the file of the start; the log tells. */
void apply_and_log(struct target *target);
