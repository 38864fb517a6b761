/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines: a table of options becomes a parser and --help; a program with subcommands adds a
 * table of those. Main thread, before others start. Tables and argv belong to the caller. Bad usage
 * prints one line on stderr and ends with exit status 2; --help goes to stdout.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum arg_type {
	ARG_FLAG,     /* bool: set to true */
	ARG_STRING,   /* const char *: borrowed from argv */
	ARG_UINT,     /* uint64_t within min..max */
	ARG_SIZE,     /* uint64_t bytes */
	ARG_DURATION, /* uint64_t ns */
	ARG_CHOICE,   /* unsigned: index into choices */
	ARG_LIST,     /* struct arg_list: one more each time; max: how many at most */
};

enum {
	ARG_LIST_MAX = 8,
};

struct arg_list {
	const char *items[ARG_LIST_MAX]; /* borrowed from argv */
	unsigned n;
};

struct arg {
	const char *name; /* "name" for --name; NULL ends the table */
	char letter;	  /* 'n' for -n, or 0 */
	enum arg_type type;
	void *value;		 /* default in, result out */
	const char *placeholder; /* "NAME" in --help; NULL: "VALUE", or the choices */
	const char *help;
	uint64_t min, max; /* ARG_UINT, SIZE, DURATION, LIST; max 0: no limit */
	const char *const *choices;
	const char *standard; /* the default, for --help; NULL: none, or help has it */
	const char **text;    /* gets the last value as it was given ("yes" for a flag); or NULL */
};

struct args_usage {
	const char *program;	/* "rblk attach" */
	const char *positional; /* "NQN@ADDRESS [NAME]", "" */
	const char *summary;	/* one sentence */
	unsigned min_positional, max_positional;
};

/*
 * Parses argv[1..] into the values of the table. Returns -1 to continue, else the exit code to end
 * with at once (--help, --version, bad usage; all output is printed). argv is permuted: positional
 * arguments stand last, from *ret_positional to argc - 1.
 */
int args_parse(const struct args_usage *usage, const struct arg *table, int argc, char **argv,
	       int *ret_positional);

struct subcommand {
	const char *name; /* "discover", or "namespace add"; NULL ends the table */
	/* argv[0] is the (last) word of the name; returns an exit code. */
	int (*run)(int argc, char **argv);
	const char *help;
	/* Called where run is NULL, with the row: one function for several subcommands. */
	int (*run_row)(const void *row, int argc, char **argv);
	const void *row;
};

/* Runs the subcommand that argv[1], and argv[2] for two-word names, name. Prints what is wrong if
 * there is none. Returns an exit code. */
int args_run_subcommand(const char *program, const char *summary, const struct subcommand *table,
			int argc, char **argv);
