/* SPDX-License-Identifier: BSD-3-Clause */
/* See json.h. The checks for NULL are needed: json-c aborts the program on a NULL object. */
#include "base/bits.h"
#include "base/histogram.h"
#include "base/json.h"

static _Thread_local bool is_partial;

void json_add(struct json_object *object, const char *key, struct json_object *value)
{
	if (value && object && json_object_object_add(object, key, value) == 0)
		return;
	is_partial = true;
	json_object_put(value);
}

void json_append(struct json_object *array, struct json_object *value)
{
	if (value && array && json_object_array_add(array, value) == 0)
		return;
	is_partial = true;
	json_object_put(value);
}

void json_add_null(struct json_object *object, const char *key)
{
	if (!object || json_object_object_add(object, key, NULL) < 0)
		is_partial = true;
}

bool json_is_whole(void)
{
	bool is_whole = !is_partial;

	is_partial = false;
	return is_whole;
}

bool json_is_text_of(const char *text, struct json_object *object)
{
	struct json_object *again = text ? json_tokener_parse(text) : NULL;
	bool is_same = again && json_object_equal(again, object);

	json_object_put(again);
	return is_same;
}

struct json_object *json_of_histogram(const struct histogram *histogram)
{
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < ARRAY_LEN(histogram->counts); i++) {
		struct json_object *pair;

		if (!histogram->counts[i])
			continue;
		pair = json_object_new_array();
		json_append(pair, json_object_new_uint64(histogram_step_end(i)));
		json_append(pair, json_object_new_uint64(histogram->counts[i]));
		json_append(list, pair);
	}
	return list;
}
