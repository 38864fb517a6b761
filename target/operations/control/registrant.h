/* SPDX-License-Identifier: BSD-3-Clause */
/* Control methods on registrants: hosts that have registered a key for reservations. Control
 * thread. */
#pragma once

#include "base/rpc.h"

struct target;

/* registrant_list {"name"}: of a subsystem or a namespace, or all. */
struct json_object *control_registrant_list(void *context, struct json_object *params,
					    struct error *error);
/* registrant_drop {"subsystem", "nsid", "hostid", "force"} begins, and answers with "id"; {"id"}
 * asks how it goes, and is the last call when "state" is no longer "running": it is "dropped", or
 * "none" where no host is registered with the identifier. */
struct json_object *control_registrant_drop(void *context, struct json_object *params,
					    struct error *error);
/* None runs. Accepts that there was none. */
void control_registrant_stop(struct target *target);
