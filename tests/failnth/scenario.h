/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything that a host and an administrator do with a rblkd, by hosts that tolerate anything but
 * silence: a refused connection, a failed command, a connection that ends.
 */
#pragma once

#include "tests/raw/daemon.h"

/*
 * round: writes contain its number. False: a command got no answer at all, or acknowledged data is
 * missing.
 */
bool scenario_run(const struct daemon *d, unsigned round);
/* Whether rblkd serves a host in every respect, after any failure. It may need several tries. */
bool scenario_is_served(struct daemon *d);
