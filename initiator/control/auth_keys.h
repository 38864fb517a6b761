/* SPDX-License-Identifier: BSD-3-Clause */
/* The secrets of a volume, from the files that its configuration names. */
#pragma once

#include "base/error.h"
#include "initiator/control/volume_config.h"
#include "initiator/io/auth.h"

/* Reads what config names. 0, or -errno with *error filled. */
int auth_keys_load(const struct volume_config *config, struct auth_keys *ret_keys,
		   struct error *error);
