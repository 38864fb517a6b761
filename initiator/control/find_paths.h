/* SPDX-License-Identifier: BSD-3-Clause */
/* The paths of a volume by discovery: see find_paths.c. Any thread, before the volume
 * opens. */
#pragma once

#include "initiator/control/volume.h"

/* Adds the portals of the subsystem that the target at config's address, or at one of its other
 * paths, and those that it refers to, have in their discovery logs. Blocking. 0, or an exit code
 * with *error filled: none answers, and config has no other path. */
int find_paths(struct volume_config *config, struct error *error);
