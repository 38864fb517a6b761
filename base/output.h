/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output of the command line programs: results and failures, as text for people or as JSON. The
 * rules for all programs are in docs/CONVENTIONS.md. Main thread.
 */
#pragma once

#include <json-c/json.h>
#include <stdarg.h>

#include "base/args.h"
#include "base/error.h"

/* --output table|json */
enum output {
	OUTPUT_TABLE,
	OUTPUT_JSON,
};

#define OUTPUT_CHOICES "table|json"
#define OUTPUT_HELP    "table, or json for scripts"
extern const char *const output_names[];

/* Searches the arguments for -o json. If it is there, failures are printed as JSON from here on,
 * those of the parsing of options included. */
void output_look(int argc, char **argv);

/* Prints the object in the form of all programs, with a newline. The caller keeps the object. */
void output_json(struct json_object *object);

/* Adds the key "error", as every failure has it. hint may be NULL. The caller keeps all. */
void output_add_error(struct json_object *object, const char *program, enum exit_code code,
		      const char *hint, const char *message);

/* fail_with (args.h) with a list of arguments. */
__attribute__((format(printf, 4, 0))) int fail_with_list(const char *program, enum exit_code code,
							 const char *hint, const char *fmt,
							 va_list ap);

/* Prints "program: error: ..." and, if hint is not NULL, "program: hint: ..." on stderr; with -o
 * json an object with "error" on stdout (output.h). Returns code. */
__attribute__((format(printf, 4, 5))) int fail_with(const char *program, enum exit_code code,
						    const char *hint, const char *fmt, ...);
