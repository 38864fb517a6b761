/* SPDX-License-Identifier: BSD-3-Clause */
/* Methods of the control socket: groups with one owner. Control thread. */
#pragma once

#include "base/rpc.h"

struct target;

struct json_object *control_group_list(void *context, struct json_object *params,
				       struct error *error);
struct json_object *control_group_give(void *context, struct json_object *params,
				       struct error *error);
/* The list of group_list. */
struct json_object *control_list_groups(struct target *target);
