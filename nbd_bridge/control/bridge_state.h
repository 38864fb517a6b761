/* SPDX-License-Identifier: BSD-3-Clause */
/* The volume process's states, and where users find the volume. */
#pragma once

#include "nbd_bridge/control/bridge_internal.h"

/* Where NBD clients find the volume, or "". Returns buf. */
const char *bridge_uri(const struct bridge *bridge, char buf[BRIDGE_URI_MAX]);
/* "/dev/nbd0", or "" without one; owned by the front end. */
const char *bridge_device(const struct bridge *bridge);
/* Checks the move against the table. */
void bridge_move(struct bridge *bridge, enum bridge_state state);
