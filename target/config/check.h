/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a configuration whose values are each valid: duplicate names, references to names that do
 * not exist, keys that exclude each other, files that cannot be served. Control thread, after
 * conf_read. conf_read may have found errors already: then strings may be NULL and numbers 0 here,
 * and these checks skip what already has a message.
 */
#pragma once

#include <stdio.h>

struct conf;
struct target_config;

/* Checks across keys. Errors go to conf, warnings to out. */
void config_check(struct target_config *config, const char *path, struct conf *conf, FILE *out);
