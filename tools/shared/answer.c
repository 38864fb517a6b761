/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of the objects that rblkd and volume processes answer with. A member that is absent reads as "-", 0, false or
 * NULL, so that answers of an older process are shown, too.
 */
#include "tools/shared/answer.h"

struct json_object *answer_member(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	if (json_object_is_type(o, json_type_object))
		json_object_object_get_ex(o, key, &value);
	return value;
}

const char *answer_string(struct json_object *o, const char *key)
{
	struct json_object *value = answer_member(o, key);

	return value ? json_object_get_string(value) : "-";
}

uint64_t answer_number(struct json_object *o, const char *key)
{
	return json_object_get_uint64(answer_member(o, key));
}

bool answer_bool(struct json_object *o, const char *key)
{
	return json_object_get_boolean(answer_member(o, key));
}
