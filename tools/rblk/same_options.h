/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching what is attached already: is it what is asked for? */
#pragma once

#include <json-c/json.h>

#include "nbd_bridge/control/bridge.h"
#include "tools/rblk/volume_options.h"

/* status: of the volume that is attached; options and *config: what is asked for. 0, or EXIT_BUSY with
 * *error, which names what differs. A name, a socket, a front end and a fabric that are not given may be any. */
int same_options_check(struct json_object *status, const struct volume_options *options,
		       const struct bridge_config *config, struct error *error);
