/* SPDX-License-Identifier: BSD-3-Clause */
/* The control method on captures (base/capture_rpc.h), over all pollers. Control thread. */
#pragma once

#include <stdbool.h>

#include "base/rpc.h"

struct target;

/* Once there are pollers. */
void control_captures_init(struct target *target);
/* Before they go. */
void control_captures_stop(struct target *target);
bool control_is_capturing(const struct target *target);
struct json_object *control_capture(void *context, struct json_object *params, struct error *error);
