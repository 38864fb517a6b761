/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on the configuration. Control thread. */
#pragma once

#include "base/rpc.h"

/* {"file"}: a file other than that of the start. diff returns the changes; apply also applies them.
 * For a file that cannot be applied the call succeeds, and its answer has "code", "messages" and
 * "refusal". */
struct json_object *control_diff(void *context, struct json_object *params, struct error *error);
struct json_object *control_apply(void *context, struct json_object *params, struct error *error);
