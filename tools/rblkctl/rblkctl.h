/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the subcommands of rblkctl share: options (options.c), the call of rblkd (client.c), members
 * of its answer (answer.c) and tables (table.c). Subcommands do not call each other. Thread: main,
 * all of it.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/args.h"
#include "base/output.h"
#include "base/units.h"

struct options {
	const char *socket; /* borrowed from argv or the environment */
	unsigned output;    /* enum output */
	bool wants_bytes;
};

/* Each subcommand, as args_run_subcommand calls it. */
int run_status(int argc, char **argv);
int run_list(int argc, char **argv);
int run_stats(int argc, char **argv);
int run_ns_resize(int argc, char **argv);
int run_capsules(int argc, char **argv);
int run_clear(int argc, char **argv);
int run_diff(int argc, char **argv);
int run_apply(int argc, char **argv);
int run_drain(int argc, char **argv);
int run_ana_list(int argc, char **argv);
int run_ana_set(int argc, char **argv);
int run_qos_list(int argc, char **argv);
int run_qos_set(int argc, char **argv);
int run_gen_key(int argc, char **argv);

/* Fills options and the first positional argument; returns as args_parse does. */
int options_parse(const struct args_usage *usage, int argc, char **argv,
		  struct options *ret_options, int *ret_positional);

/* The same with more options. */
int options_parse_with(const struct args_usage *usage, const struct arg *more, unsigned n_more,
		       int argc, char **argv, struct options *ret_options, int *ret_positional);

/* Calls rblkd and blocks for its answer; takes params, which may be NULL. EXIT_OK with *ret_result,
 * which the caller puts; or an exit code, and the error is printed. */
int client_call(const struct options *options, const char *method, struct json_object *params,
		struct json_object **ret_result);

/* Members of an answer, borrowed from it; an absent one is "-", 0, false or NULL. */
const char *answer_string(struct json_object *o, const char *key);
uint64_t answer_number(struct json_object *o, const char *key);
bool answer_bool(struct json_object *o, const char *key);
struct json_object *answer_member(struct json_object *o, const char *key);

/* "128MiB", or "134217728" with --bytes. */
const char *format_size(const struct options *options, char buf[UNITS_MAX], uint64_t bytes);

/* ---- tables --------------------------------------------------------------------------------- */

enum {
	COLUMNS_MAX = 16,
};

/* Columns as wide as they need to be, or as the terminal allows. Marks in front of a title: '>' a
 * number, aligned to the right; '~' a name that may lose its beginning, '^' words that may lose
 * their end; '?' a column that is left out first, from the right. */
struct table {
	unsigned n_columns, n_rows;
	char **cells; /* owned: strings too; the first row holds the titles */
	unsigned at;  /* the next cell */
};

/* titles: NULL-terminated, at most COLUMNS_MAX; borrowed until table_end. */
void table_begin(struct table *table, const char *const *titles);
/* Row by row, from the left; the text is copied. */
void table_add(struct table *table, const char *text);
__attribute__((format(printf, 2, 3))) void table_addf(struct table *table, const char *fmt, ...);
void table_add_size(struct table *table, const struct options *options, uint64_t bytes);
/* Prints and frees. */
void table_end(struct table *table);
