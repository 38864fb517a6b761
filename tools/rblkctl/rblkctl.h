/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the subcommands of rblkctl: options (options.c) and the call of rblkd (client.c).
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

/* The kind of a parameter, made from a word of the command line. */
enum param_kind {
	PARAM_TEXT,
	PARAM_NUMBER,
	PARAM_SIZE,
	PARAM_TEXTS, /* all words that are left, as a list */
	PARAM_PAIRS, /* the same, each KEY=VALUE, as an object */
};

struct param {
	const char *key; /* of the call; NULL ends the list */
	enum param_kind kind;
	const char *word; /* in --help: "NSID" */
	bool is_optional;
	unsigned n_max; /* words of a list */
};

/* A subcommand: one that is a call of rblkd, or one with a function of its own. */
struct command {
	const char *name; /* "ana set"; NULL ends the table */
	const char *help; /* in the list of all */
	/* As args_run_subcommand calls it. NULL: a call, and the rest of the row describes it. */
	int (*run)(int argc, char **argv);
	const char *summary, *method;
	struct param params[4];
	struct arg options[2]; /* each a parameter of its name; .value is not used */
	/* May refuse the parameters, or add to them: EXIT_OK, or the mistake is printed. */
	int (*accept)(struct json_object *params);
	/* Prints the answer as text; with -o json it is printed as it came. */
	void (*show)(const struct options *options, struct json_object *result);
	/* The exit code that the answer stands for; NULL: EXIT_OK. */
	int (*code)(struct json_object *result);
};

/* row: a struct command that is a call. Parses the command line, calls, shows. An exit code;
 * mistakes and failures are printed. */
int call_run(const void *row, int argc, char **argv);

/* ---- what the rows name ---- */

int run_stats(int argc, char **argv);
int run_capture(int argc, char **argv);
int run_diff(int argc, char **argv);
int run_apply(int argc, char **argv);
int run_drain(int argc, char **argv);
int run_qos_list(int argc, char **argv);
int run_registrant_drop(int argc, char **argv);
int run_group_give(int argc, char **argv);
int run_upgrade(int argc, char **argv);
int run_gen_key(int argc, char **argv);
int check_list(struct json_object *params);
int code_of_status(struct json_object *status);
void show_status(const struct options *options, struct json_object *status);
void show_list(const struct options *options, struct json_object *result);
void show_capsules(const struct options *options, struct json_object *result);
void show_cleared(const struct options *options, struct json_object *result);
void show_resized(const struct options *options, struct json_object *result);
void show_ana(const struct options *options, struct json_object *result);
void show_ana_set(const struct options *options, struct json_object *result);
void show_qos_set(const struct options *options, struct json_object *result);
void show_ended(const struct options *options, struct json_object *result);
void show_registrants(const struct options *options, struct json_object *result);
void show_groups(const struct options *options, struct json_object *result);
