/* SPDX-License-Identifier: BSD-3-Clause */
/* upgrade.c: the method that lets another process take over. Control thread. */
#pragma once

#include <json-c/json.h>

#include "base/error.h"

struct target;

struct json_object *control_upgrade(void *context, struct json_object *params, struct error *error);
/* For status: the succession that is under way here, or has led to this process. The caller owns
 * it; NULL: there is none. */
struct json_object *control_show_upgrade(const struct target *target);
