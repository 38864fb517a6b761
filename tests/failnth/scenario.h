/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All that a host and an administrator do with a rblkd, by hosts that put up with anything but
 * silence: a refused connection, a failed command, a connection that ends.
 */
#pragma once

#include "tests/raw/daemon.h"

/*
 * round: what is written bears its number. False: something got no answer at all, or what was
 * acknowledged is not there.
 */
bool scenario_run(const struct daemon *d, unsigned round);
/* Whether a host is served in every respect, whatever was before. It may have to try for a
 * while. */
bool scenario_is_served(struct daemon *d);
