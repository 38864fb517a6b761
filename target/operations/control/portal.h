/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on one portal. Control thread. */
#pragma once

#include "base/rpc.h"

/* drain {"portal", "undo"}: by name; returns at once with the number of remaining connections. */
struct json_object *control_drain(void *context, struct json_object *params, struct error *error);
