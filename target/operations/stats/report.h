/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters, for rblkctl stats. Control thread. */
#pragma once

#include "base/rpc.h"

/* stats {"what": "namespaces", "hosts" or "queues", "name": "NQN" or "NQN/NSID"}; the name is for
 * namespaces and optional. */
struct json_object *control_stats(void *context, struct json_object *params, struct error *error);
