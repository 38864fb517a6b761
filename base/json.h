/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON that is put together without a look at memory at each step: what cannot be made is left out,
 * the thread remembers that, and json_is_whole says it at the end. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <json-c/json.h>

/* Take over value, which is NULL when there was no memory for it; so may object and array be. */
void json_add(struct json_object *object, const char *key, struct json_object *value);
void json_append(struct json_object *array, struct json_object *value);
/* Adds JSON's null. */
void json_add_null(struct json_object *object, const char *key);
/* Whether nothing was left out since it was last asked. */
bool json_is_whole(void);
/* Whether the text, which may be NULL, says what the object does: json-c tells nobody when it runs out
 * of memory in the midst of a text. */
bool json_is_text_of(const char *text, struct json_object *object);
