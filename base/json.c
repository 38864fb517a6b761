/* SPDX-License-Identifier: BSD-3-Clause */
/* See json.h. The checks for NULL are needed: json-c aborts the program on a NULL object. */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/histogram.h"
#include "base/json.h"

static _Thread_local bool is_partial;

/* json-c ignores some allocations that fail, and then a key is missing: only errno remains. The
 * pieces are so short that no number, for which json-c clears errno, follows in the same one. */
int json_parse(const char *text, struct json_object **ret)
{
	struct json_tokener *tokener = json_tokener_new();
	enum json_tokener_error error = json_tokener_continue;
	int r = tokener ? 0 : -ENOMEM;

	*ret = NULL;
	while (r == 0 && error == json_tokener_continue && *text) {
		size_t n = strcspn(text, ",:{}[]");

		n += text[n] != '\0';
		errno = 0;
		*ret = json_tokener_parse_ex(tokener, text, (int)n);
		r = errno == ENOMEM ? -ENOMEM : 0;
		error = json_tokener_get_error(tokener);
		text += n;
	}
	if (tokener)
		json_tokener_free(tokener);
	if (r == 0 && error != json_tokener_success)
		r = -EINVAL;
	if (r < 0) {
		json_object_put(*ret);
		*ret = NULL;
	}
	return r;
}

bool json_get(struct json_object *object, const char *key, json_type type,
	      struct json_object **ret_value)
{
	return json_object_is_type(object, json_type_object) &&
	       json_object_object_get_ex(object, key, ret_value) &&
	       json_object_is_type(*ret_value, type);
}

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
