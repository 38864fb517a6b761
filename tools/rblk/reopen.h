/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes a volume that has failed try its target again. Blocks. Thread: main. */
#pragma once

#include <json-c/json.h>

#include "initiator/control/volume.h"

/* Waits until it is live: 0 with its status (owned by the caller), or an exit code with *error
 * filled. */
int reopen_volume(const char *name, struct json_object **ret_status, struct error *error);
