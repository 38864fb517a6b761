/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/states.h"
#include "nbd_bridge/control/bridge_internal.h"
#include "nbd_bridge/control/bridge_state.h"
#include "nbd_bridge/control/frontend_kernel.h"

#define TO(s) STATE_TO(BRIDGE_##s)
static const struct state_rule rules[] = {
	[BRIDGE_OPENING] = {"opening", TO(SERVING) | TO(CLOSING)},
	[BRIDGE_SERVING] = {"serving", TO(STOPPING)},
	[BRIDGE_STOPPING] = {"stopping", TO(FLUSHING) | TO(REMOVING)},
	[BRIDGE_FLUSHING] = {"flushing", TO(REMOVING)},
	[BRIDGE_REMOVING] = {"removing", TO(CLOSING)},
	[BRIDGE_CLOSING] = {"closing", 0},
};
#undef TO

void bridge_move(struct bridge *bridge, enum bridge_state state)
{
	states_move("bridge", rules, &bridge->state, state);
}

/* The name is of characters that a URI takes as they are. */
const char *bridge_uri(const struct bridge *bridge, char buf[BRIDGE_URI_MAX])
{
	const struct bridge_config *config = bridge->config;

	buf[0] = '\0';
	if (config->sockets.path)
		snprintf(buf, BRIDGE_URI_MAX, "nbd+unix:///%s?socket=%s", config->name,
			 config->sockets.path);
	return buf;
}

const char *bridge_device(const struct bridge *bridge)
{
	return bridge->kernel ? frontend_kernel_device(bridge->kernel) : "";
}
