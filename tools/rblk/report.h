/* SPDX-License-Identifier: BSD-3-Clause */
/* How subcommands print errors and JSON, and read members of JSON. Thread: main. */
#pragma once

#include <stdbool.h>
#include <json-c/json.h>

#include "base/args.h"
#include "base/error.h"
#include "base/output.h"

/* Prints the failure as fail_with does (base/args.h). Returns its exit code. */
int report_error(const char *program, const struct error *error);
/* Prints the object with a line end and puts it; returns EXIT_OK. */
int report_json(struct json_object *object);

/* Members of an object; "" and 0 when absent. */
const char *json_text(struct json_object *object, const char *key);
uint64_t json_number(struct json_object *object, const char *key);
