/* SPDX-License-Identifier: BSD-3-Clause */
/* Members of what rblkd and volume processes answer. Thread: main. */
#pragma once

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* Members of an answer, borrowed from it; an absent one is "-", 0, false or NULL. */
const char *answer_string(struct json_object *o, const char *key);
uint64_t answer_number(struct json_object *o, const char *key);
bool answer_bool(struct json_object *o, const char *key);
struct json_object *answer_member(struct json_object *o, const char *key);
