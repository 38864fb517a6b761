/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching a volume that is attached already: are its options the same? Thread: main. */
#pragma once

#include <json-c/json.h>

#include "nbd_bridge/control/bridge.h"
#include "tools/rblk/volume_options.h"

/* status: of the volume that is attached; options and *config: the requested ones. 0, or EXIT_BUSY
 * with *error, which names the differences. A name, a socket, a front end and a fabric that are not
 * given may be any. */
int same_options_check(struct json_object *status, const struct volume_options *options,
		       const struct bridge_config *config, struct error *error);
