/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths of a volume by discovery: see find_paths.c. Thread: main, before the volume opens. */
#pragma once

#include "initiator/control/volume.h"

/* Adds the portals of the subsystem that the target at config's address, and those that it refers
 * to, have in their discovery logs. Blocking. 0, or an exit code with *error filled. */
int find_paths(struct volume_config *config, struct error *error);
