/* SPDX-License-Identifier: BSD-3-Clause */
/* The state directory, and the small files in it: what must survive a restart. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
	STATE_FILE_MAX = 1024 * 1024, /* a longer one is neither written nor read */
};

struct state_directory;

/* Control. The directory, locked against a second rblkd. NULL with one line in why, and errno:
 * EBUSY when another rblkd has it. */
struct state_directory *state_directory_open(const char *path, char *why, size_t n);
void state_directory_close(struct state_directory *directory); /* accepts NULL */
const char *state_directory_path(const struct state_directory *directory);
/* Any thread. Replaces the file (n bytes), or removes it (text NULL), so that a crash leaves either
 * the old or the new. 0; or -errno, and then *ret_is_old (may be NULL) tells whether the old file
 * is there as it was: false when the new one took its place, but perhaps not for good. */
int state_file_write(const struct state_directory *directory, const char *name, const char *text,
		     size_t n, bool *ret_is_old);
/* The whole file, to be freed, NUL-terminated; NULL with 0 when there is none; or -errno. */
int state_file_read(const struct state_directory *directory, const char *name, char **ret_text);
