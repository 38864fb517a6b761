/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fields of an answer of the control socket, as base/json.h adds them: what memory does not
 * suffice for is left out, and the caller checks json_is_whole at the end. Strings are copied. Any
 * thread; the object belongs to the caller.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct json_object;
struct namespace;
struct namespace_counters;

enum {
	CONTROL_SCHEMA = 1, /* "schema" of every answer */
};

/* value NULL: JSON's null. */
void control_add_string(struct json_object *o, const char *key, const char *value);
void control_add_number(struct json_object *o, const char *key, uint64_t value);
void control_add_bool(struct json_object *o, const char *key, bool value);
/* Adds what hosts have read and written in a namespace: sum is of its counters (stats.h). */
void control_add_counters(struct json_object *o, const struct namespace *ns,
			  const struct namespace_counters *sum);
/* The whole seconds since then_ns, a reading of clock_ns. */
void control_add_seconds_since(struct json_object *o, const char *key, uint64_t then_ns);
