/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the command line programs print: results for people or as JSON, and failures. The rules that
 * all programs keep are in docs/CONVENTIONS.md. Main thread.
 */
#pragma once

#include <json-c/json.h>
#include <stdarg.h>

#include "base/args.h"

/* --output table|json */
enum output {
	OUTPUT_TABLE,
	OUTPUT_JSON,
};

#define OUTPUT_CHOICES "table|json"
#define OUTPUT_HELP    "table, or json for scripts"
extern const char *const output_names[];

/* Looks for -o json among the arguments of a program. From then on failures are JSON, too: those that
 * are met before or while the options are parsed. */
void output_look(int argc, char **argv);

/* Prints the object as all programs do, with a line end. The caller keeps the object. */
void output_json(struct json_object *object);

/* fail_with (args.h) with a list of arguments. */
__attribute__((format(printf, 4, 0))) int fail_with_list(const char *program, enum exit_code code,
							 const char *hint, const char *fmt,
							 va_list ap);
