/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on rate limits. Control thread. */
#pragma once

#include "base/rpc.h"

struct json_object *control_qos_list(void *context, struct json_object *params,
				     struct error *error);
struct json_object *control_qos_set(void *context, struct json_object *params, struct error *error);
