/* SPDX-License-Identifier: BSD-3-Clause */
/* Block devices that a volume process left behind when it ended; see kernel_name.h. Thread:
 * main. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "initiator/control/volume.h"

struct left_device {
	char volume[64];
	uint32_t index; /* of /dev/nbdN */
	uuid_t uuid;
};

/* The n-th, in no order; false when there are not that many. */
bool left_get(unsigned n, struct left_device *ret_device);
/* what: the volume's name, or the device's path. */
bool left_find(const char *what, struct left_device *ret_device);
/* Ends it, with what the kernel has not written. 0, or an exit code with *error filled. */
int left_end(const struct left_device *device, struct error *error);
