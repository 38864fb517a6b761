/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the subcommands of rblkctl share: options (options.c) and the call of rblkd (client.c).
 * Subcommands do not call each other. Thread: main, all of it.
 */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/args.h"
#include "base/output.h"
#include "base/units.h"
#include "tools/shared/answer.h"
#include "tools/shared/table.h"

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
int run_capture(int argc, char **argv);
int run_clear(int argc, char **argv);
int run_diff(int argc, char **argv);
int run_apply(int argc, char **argv);
int run_drain(int argc, char **argv);
int run_ana_list(int argc, char **argv);
int run_ana_set(int argc, char **argv);
int run_qos_list(int argc, char **argv);
int run_qos_set(int argc, char **argv);
int run_host_disconnect(int argc, char **argv);
int run_registrant_list(int argc, char **argv);
int run_registrant_drop(int argc, char **argv);
int run_group_list(int argc, char **argv);
int run_group_give(int argc, char **argv);
int run_upgrade(int argc, char **argv);
int run_gen_key(int argc, char **argv);

/* Fills options and the first positional argument; returns as args_parse does. */
int options_parse(const struct args_usage *usage, int argc, char **argv,
		  struct options *ret_options, int *ret_positional);

/* The same with more options. */
int options_parse_with(const struct args_usage *usage, const struct arg *more, unsigned n_more,
		       int argc, char **argv, struct options *ret_options, int *ret_positional);

/* A subcommand that is one call: its argument, if it is given, goes by this key. */
struct one_call {
	struct args_usage usage;
	const char *method, *key;
	/* Prints the answer as text; with -o json it is printed as it came. */
	void (*show)(struct json_object *result);
};
/* Parses the command line, calls and shows. An exit code; mistakes and failures are printed. */
int run_one_call(const struct one_call *call, int argc, char **argv);

/* Calls rblkd and blocks for its answer; takes params, which may be NULL. EXIT_OK with *ret_result,
 * which the caller puts; or an exit code, and the error is printed. */
int client_call(const struct options *options, const char *method, struct json_object *params,
		struct json_object **ret_result);

/* The same for a call that may find no rblkd, as between two of them: -errno then, and nothing is
 * printed. */
int client_try(const struct options *options, const char *method, struct json_object **ret_result);

/* Warns on stderr of each host that "hosts_without_path" of an answer names. */
void print_cut_hosts(struct json_object *answer);
/* "128MiB", or "134217728" with --bytes. */
const char *format_size(const struct options *options, char buf[UNITS_MAX], uint64_t bytes);
/* A cell of a table with that text. */
void table_add_size(struct table *table, const struct options *options, uint64_t bytes);
