/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on ANA groups. Control thread. */
#pragma once

#include "base/rpc.h"

/* {"subsystem"}: its groups, or without it those of all subsystems, each with its state through
 * each portal. */
struct json_object *control_ana_list(void *context, struct json_object *params,
				     struct error *error);
/* {"subsystem", "group", "state", "portal"}: through that portal; without it through all. */
struct json_object *control_ana_set(void *context, struct json_object *params, struct error *error);
