/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors and JSON on their way to the user; see report.h. */
#include <stdarg.h>
#include <stdio.h>

#include "tools/rblk/report.h"

const char *const output_names[] = {"normal", "json", NULL};

int report_error(const char *program, enum output output,
		 const struct volume_error *error)
{
	struct json_object *whole, *inner;

	if (output == OUTPUT_NORMAL)
		return fail_with(program, error->code, *error->hint ? error->hint : NULL,
				 "%s", error->message);
	whole = json_object_new_object();
	inner = json_object_new_object();
	json_object_object_add(whole, "schema", json_object_new_int(1));
	json_object_object_add(whole, "error", inner);
	json_object_object_add(inner, "code", json_object_new_int((int)error->code));
	json_object_object_add(inner, "message", json_object_new_string(error->message));
	json_object_object_add(inner, "hint", json_object_new_string(error->hint));
	report_json(whole);
	return (int)error->code;
}

int report_json(struct json_object *object)
{
	puts(json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
				JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
	return EXIT_OK;
}

struct volume_error *report_fill(struct volume_error *error, enum exit_code code,
				 const char *hint, const char *fmt, ...)
{
	va_list ap;

	*error = (struct volume_error){.code = code};
	va_start(ap, fmt);
	vsnprintf(error->message, sizeof(error->message), fmt, ap);
	va_end(ap);
	snprintf(error->hint, sizeof(error->hint), "%s", hint ? hint : "");
	return error;
}

const char *json_text(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, key, &value);
	return value ? json_object_get_string(value) : "";
}

uint64_t json_number(struct json_object *object, const char *key)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, key, &value);
	return value ? json_object_get_uint64(value) : 0;
}
