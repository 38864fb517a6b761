/* SPDX-License-Identifier: BSD-3-Clause */
/* The state directory and its small files: the state that survives a restart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
	STATE_FILE_MAX = 1024 * 1024, /* a longer file is neither written nor read */
};

struct error;
struct state_directory;

/* Control. Opens the directory and locks it against a second rblkd. NULL and *error: its code is
 * EXIT_BUSY if another rblkd has the directory. */
struct state_directory *state_directory_open(const char *path, struct error *error);
/* The same without a lock: what a file in it says belongs to the rblkd that has the lock of a
 * store. */
struct state_directory *state_directory_open_shared(const char *path, struct error *error);
void state_directory_close(struct state_directory *directory); /* accepts NULL */
const char *state_directory_path(const struct state_directory *directory);
/* Any thread. Replaces the file by n bytes, or removes it (text NULL); after a crash there is
 * either the old or the new. 0; or -errno, and *ret_is_old (may be NULL) is true if the old file is
 * still there, false if the new one has replaced it but may not survive a crash. */
int state_file_write(const struct state_directory *directory, const char *name, const char *text,
		     size_t n, bool *ret_is_old);
/* Control, at the start: renames a damaged file to NAME.damaged, for a person to look at, and logs
 * that. lost: what it held, what now happens. Only for state whose loss endangers no data. */
void state_file_set_aside(const struct state_directory *directory, const char *name,
			  const char *lost);
/* Reads the whole file, NUL-terminated; the caller frees it. NULL with 0: no file; or -errno. */
int state_file_read(const struct state_directory *directory, const char *name, char **ret_text);
/* Any thread. The names of files that begin with prefix, a line each, in no order; none of files
 * that are being written or were set aside. The caller frees *ret_text. 0; -E2BIG: there are more
 * than n_max; or -errno. */
int state_file_list(const struct state_directory *directory, const char *prefix, unsigned n_max,
		    char **ret_text);
