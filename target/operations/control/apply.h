/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on the configuration. Control thread. */
#pragma once

#include "base/rpc.h"

/* {"file"}: another file than the one of the start. What is different; apply does it, too. A file
 * that cannot be applied is no failed call: the answer has "code", "messages" and "refusal". */
struct json_object *control_diff(void *context, struct json_object *params, struct error *error);
struct json_object *control_apply(void *context, struct json_object *params, struct error *error);
