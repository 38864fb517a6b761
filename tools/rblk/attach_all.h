/* SPDX-License-Identifier: BSD-3-Clause */
/* rblk attach --all: each namespace that targets offer. Thread: main. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct attach_all {
	const char *address; /* of a target; NULL: what the files in directory name */
	const char *directory;
	const char *hostnqn, *hostid, *host_address; /* as given; NULL */
	const char *secret_file, *ctrl_secret_file;
	bool is_json;
	char **words; /* the options of the command line, with their values */
	unsigned n_words;
};

/* Runs `rblk attach` for each namespace, one after the other. Returns an exit code: EXIT_PARTIAL if
 * some could not be attached. */
int attach_all(const struct attach_all *all);
