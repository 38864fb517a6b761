/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the text of a file, which conf_read.c then reads; see conf.h. */
#pragma once

#include <stdio.h>

struct conf;
struct conf_schema;

/* Reads path ("-": standard input) into *into, which is zeroed first. Prints errors to out as they
 * occur, at most 50. *into is usable if conf_n_errors is 0. Returns -errno only if the file cannot
 * be read, which is printed, too. The caller frees *ret_conf with conf_free and *into with
 * conf_release, even after errors, and keeps out open until conf_free. */
int conf_read(const char *path, const struct conf_schema *schema, void *into, FILE *out,
	      struct conf **ret_conf);
