/* SPDX-License-Identifier: BSD-3-Clause */
/* The control method on the last capsules of each queue. Control thread. */
#pragma once

#include "base/rpc.h"

struct json_object *control_capsules(void *context, struct json_object *params,
				     struct error *error);
