/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on one host. Control thread. */
#pragma once

#include "base/rpc.h"

/* host_disconnect {"host"}, by NQN or by its name in the configuration: ends its associations. */
struct json_object *control_host_disconnect(void *context, struct json_object *params,
					    struct error *error);
