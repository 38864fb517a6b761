/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on one namespace. Control thread. */
#pragma once

#include "base/rpc.h"

/* ns_resize {"subsystem", "nsid", "size", "force"}: size in bytes and force are optional. */
struct json_object *control_ns_resize(void *context, struct json_object *params,
				      struct error *error);
