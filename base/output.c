/* SPDX-License-Identifier: BSD-3-Clause */
/* See output.h. State: whether the user asked for JSON, set before the options are parsed. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/output.h"

enum {
	MESSAGE_MAX = 1024,
	SCHEMA = 1,
};

const char *const output_names[] = {[OUTPUT_TABLE] = "table", [OUTPUT_JSON] = "json", NULL};

static bool is_json;

/* An option and its value in one word: "-ojson", "--output=json". */
static bool says_json(const char *word)
{
	return !strcmp(word, "-ojson") || !strcmp(word, "--output=json");
}

static bool is_option(const char *word)
{
	return !strcmp(word, "-o") || !strcmp(word, "--output");
}

void output_look(int argc, char **argv)
{
	is_json = false;
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (says_json(argv[i]) ||
		    (is_option(argv[i]) && i + 1 < argc && !strcmp(argv[i + 1], "json")))
			is_json = true;
}

void output_json(struct json_object *object)
{
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
							    JSON_C_TO_STRING_SPACED |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
}

void output_add_error(struct json_object *object, const char *program, enum exit_code code,
		      const char *hint, const char *message)
{
	struct json_object *error = json_object_new_object();

	json_add(error, "program", json_object_new_string(program));
	json_add(error, "code", json_object_new_int((int)code));
	json_add(error, "message", json_object_new_string(message));
	json_add(error, "hint", json_object_new_string(hint ? hint : ""));
	json_add(object, "error", error);
}

static void print_failure(const char *program, enum exit_code code, const char *hint,
			  const char *message)
{
	struct json_object *whole = json_object_new_object();

	json_add(whole, "schema", json_object_new_int(SCHEMA));
	output_add_error(whole, program, code, hint, message);
	output_json(whole);
	json_object_put(whole);
}

int fail_with_list(const char *program, enum exit_code code, const char *hint, const char *fmt,
		   va_list ap)
{
	char message[MESSAGE_MAX];

	vsnprintf(message, sizeof(message), fmt, ap);
	if (is_json) {
		print_failure(program, code, hint, message);
		return code;
	}
	fprintf(stderr, "%s: error: %s\n", program, message);
	if (hint)
		fprintf(stderr, "%s: hint: %s\n", program, hint);
	return code;
}

int fail_with(const char *program, enum exit_code code, const char *hint, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail_with_list(program, code, hint, fmt, ap);
	va_end(ap);
	return code;
}
