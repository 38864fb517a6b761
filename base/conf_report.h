/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mistakes of a configuration file, each with its place, its line and a caret below; see conf.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct conf;
struct conf_mark;
struct error;

/* How many mistakes the file has, as far as it was read. */
unsigned conf_n_errors(const struct conf *conf);
/* Reports a mistake that the schema cannot find: duplicate NSID, unknown portal, no such file. With
 * code EXIT_BUSY the file may be correct, but it names a resource in use. The hint is not shown. */
void conf_report(struct conf *conf, struct conf_mark mark, const struct error *error);
/* The same for a message with code EXIT_CONFIG. */
__attribute__((format(printf, 3, 4))) void conf_error(struct conf *conf, struct conf_mark mark,
						      const char *fmt, ...);
/* Whether there are errors, and all of them have the code EXIT_BUSY. */
bool conf_is_busy(const struct conf *conf);
/* Forgets the errors so far; later ones are printed to out, as conf_read does. */
void conf_begin_again(struct conf *conf, FILE *out);

/* The line and column of the character at a byte offset of the text. */
struct conf_mark conf_mark_of_offset(const struct conf *conf, size_t offset);
