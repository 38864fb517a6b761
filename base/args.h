/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines: a table of options becomes a parser and --help. A program with
 * subcommands has a table of those. Bad usage is one line on stderr and exit status 2;
 * --help goes to stdout.
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
};

struct arg {
	const char *name; /* "name" for --name; NULL ends the table */
	char letter;	  /* 'n' for -n, or 0 */
	enum arg_type type;
	void *value;		 /* default in, result out */
	const char *placeholder; /* "NAME" in --help */
	const char *help;
	uint64_t min, max; /* ARG_UINT, SIZE, DURATION; max 0: no limit */
	const char *const *choices;
};

struct args_usage {
	const char *program;	/* "rblk attach" */
	const char *positional; /* "NQN@ADDRESS [NAME]", "" */
	const char *summary;	/* one sentence */
	unsigned min_positional, max_positional;
};

/*
 * Parses argv[1..]. Returns -1 to go on, else the exit code to return at once (--help,
 * --version, bad usage; everything needed has been printed). *ret_positional is the index
 * of the first positional argument, argv having been permuted; argc - *ret_positional of
 * them follow.
 */
int args_parse(const struct args_usage *usage, const struct arg *table, int argc, char **argv,
	       int *ret_positional);

struct subcommand {
	const char *name; /* "discover", or "namespace add"; NULL ends the table */
	/* argv[0] is the (last) word of the name; returns an exit code. */
	int (*run)(int argc, char **argv);
	const char *help;
};

/* Dispatches argv[1], and argv[2] for two-word names; says itself what is wrong. */
int args_run_subcommand(const char *program, const char *summary, const struct subcommand *table,
			int argc, char **argv);

/* Prints "program: error: ..." and, if hint is not NULL, "program: hint: ..." on stderr; with -o json
 * an object with "error" on stdout (output.h). Returns code. */
__attribute__((format(printf, 4, 5))) int fail_with(const char *program, enum exit_code code,
						    const char *hint, const char *fmt, ...);
