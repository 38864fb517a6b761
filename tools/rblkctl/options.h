/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options that every subcommand takes: the control socket, the output format, sizes in bytes.
 * They join the subcommand's own options in one table, so that --help lists all of them.
 */
#pragma once

#include <stdint.h>

#include "base/units.h"

struct arg;
struct args_usage;
struct options;
struct table;

/* Fills options and the first positional argument; returns as args_parse does. */
int options_parse(const struct args_usage *usage, int argc, char **argv,
		  struct options *ret_options, int *ret_positional);

/* The same with more options. */
int options_parse_with(const struct args_usage *usage, const struct arg *more, unsigned n_more,
		       int argc, char **argv, struct options *ret_options, int *ret_positional);

/* "128MiB", or "134217728" with --bytes. */
const char *format_size(const struct options *options, char buf[UNITS_MAX], uint64_t bytes);
/* A cell of a table with that text. */
void table_add_size(struct table *table, const struct options *options, uint64_t bytes);
