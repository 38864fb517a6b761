/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors and JSON on their way to the user; see report.h. */
#include <stdio.h>

#include "base/output.h"
#include "tools/rblk/report.h"

int report_error(const char *program, const struct error *error)
{
	return fail_with(program, error->code, *error->hint ? error->hint : NULL, "%s",
			 error->message);
}

int report_json(struct json_object *object)
{
	output_json(object);
	json_object_put(object);
	return EXIT_OK;
}

/* A missing key reads as "", so printing needs no second path for older volume processes. */
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
