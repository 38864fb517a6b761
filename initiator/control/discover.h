/* SPDX-License-Identifier: BSD-3-Clause */
/* Discovery, blocking, for command-line tools: connects to a discovery controller, reads
 * its log. */
#pragma once

#include "initiator/control/discovery_log.h"
#include "initiator/control/volume.h"

/* Uses config's address, hostnqn and hostid. 0, or -1 with *error filled. */
int discover(const struct volume_config *config, struct discover_result *ret_result,
	     struct error *error);
/* After a failed volume_open: when the target did not know the subsystem and discovery
 * shows one with a similar name, error's hint becomes "did you mean ...". Blocking;
 * does nothing otherwise. */
void discover_suggest(const struct volume_config *config, struct error *error);
