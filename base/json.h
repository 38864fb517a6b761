/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads JSON texts, and builds objects without a check for memory in each step. When memory runs
 * out, the element is left out and a flag of this thread is set; the caller checks json_is_whole
 * once, at the end. Any thread. The caller owns the objects.
 */
#pragma once

#include <stdbool.h>
#include <json-c/json.h>

/* The value of a NUL-terminated text: an object or an array. 0, and the caller owns *ret; -EINVAL:
 * it is no such text; -ENOMEM, for which json-c has no error of its own. */
int json_parse(const char *text, struct json_object **ret);
/* Whether it is an object that has the key, with a value of that type; *ret_value is borrowed. */
bool json_get(struct json_object *object, const char *key, json_type type,
	      struct json_object **ret_value);
/* Adds value; object or array owns it from here on. NULL for any of them: no memory for it. */
void json_add(struct json_object *object, const char *key, struct json_object *value);
void json_append(struct json_object *array, struct json_object *value);
/* Pairs of the longest duration of a step, in ns, and its count; empty steps are left out. The
 * histogram is the caller's alone. */
struct histogram;
struct json_object *json_of_histogram(const struct histogram *histogram);
/* Adds JSON's null. */
void json_add_null(struct json_object *object, const char *key);
/* Whether nothing was left out on this thread since the last call. */
bool json_is_whole(void);
/* Whether the text, which may be NULL, is that of the object. json-c reports no error when it runs
 * out of memory while it writes a text. */
bool json_is_text_of(const char *text, struct json_object *object);
