/* SPDX-License-Identifier: BSD-3-Clause */
/* What stores have failed at, as JSON. Control thread; objects are the caller's. */
#pragma once

#include "base/rpc.h"
#include "target/operations/control/list.h"

/* Namespaces whose store has failed at something since rblkd was started. */
struct json_object *control_list_errors(struct target *target);
/* The worst of: "failed", a sync did; "degraded", by errors that no administrator has cleared;
 * "unkept", its state file may say what is not valid; "ok". */
const char *control_namespace_state(const struct namespace *ns);
/* Adds "backend_errors" and "last_error". */
void control_add_errors(struct json_object *o, const struct namespace *ns);
struct json_object *control_clear(void *context, struct json_object *params, struct error *error);
