/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of stores as JSON. Control thread; the caller owns the returned objects. */
#pragma once

#include "base/rpc.h"
#include "target/operations/control/list.h"

/* Namespaces whose store had an error since rblkd was started. */
struct json_object *control_list_errors(struct target *target);
/* The worst of: "failed": a sync failed; "degraded": errors that no administrator has cleared;
 * "unkept": its state file may differ from the valid state; "ok". */
const char *control_namespace_state(const struct namespace *ns);
/* Adds "backend_errors" and "last_error". */
void control_add_errors(struct json_object *o, const struct namespace *ns);
struct json_object *control_clear(void *context, struct json_object *params, struct error *error);
