/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control socket tells of the last capsules of each queue. Control thread. */
#pragma once

#include "base/rpc.h"

struct json_object *control_capsules(void *context, struct json_object *params,
				     struct error *error);
