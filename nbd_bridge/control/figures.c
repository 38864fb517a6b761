/* SPDX-License-Identifier: BSD-3-Clause */
/* See figures.h. */
#include "base/bits.h"
#include "base/clock.h"
#include "nbd_bridge/control/figures.h"

const char *const bridge_op_names[VOLUME_OPS] = {
	[VOLUME_READ] = "read",	  [VOLUME_WRITE] = "write",
	[VOLUME_FLUSH] = "flush", [VOLUME_WRITE_ZEROES] = "write_zeroes",
	[VOLUME_TRIM] = "trim",	  [VOLUME_COMPARE_AND_WRITE] = "compare_and_write",
};

const char *const bridge_class_names[VOLUME_CLASSES] = {
	[VOLUME_CLASS_READ] = "read",
	[VOLUME_CLASS_WRITE] = "write",
	[VOLUME_CLASS_OTHER] = "other",
};

const char *const bridge_way_names[FENCING_WAYS] = {
	[FENCING_RESET] = "reset",
	[FENCING_TIME] = "time",
	[FENCING_CONNECT] = "connect",
	[FENCING_WORD] = "word",
};

/* 0 is no moment. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || !b ? MAX(a, b) : MIN(a, b);
}

void client_figures_add(struct client_figures *into, const struct conn_figures *of)
{
	uint64_t blocked_ns = counter_get(&of->blocked_ns);

	for (unsigned i = 0; i < CONN_REQUESTS; i++) {
		uint64_t began_ns = counter_get(&of->began_ns[i]);

		into->n_requests += began_ns > 0;
		into->oldest_ns = earlier(into->oldest_ns, began_ns);
	}
	into->n_held_bytes += counter_get(&of->n_held_bytes);
	into->n_copied_bytes += counter_get(&of->n_copied_bytes);
	into->n_blocked += blocked_ns > 0;
	into->blocked_ns = earlier(into->blocked_ns, blocked_ns);
}

uint64_t bridge_age_ns(uint64_t since_ns)
{
	uint64_t now_ns = clock_ns();

	return now_ns - MIN(now_ns, since_ns);
}

void bridge_get_status(const struct bridge *bridge, struct volume_status *ret_status)
{
	*ret_status = (struct volume_status){.state = VOLUME_CLOSING};
	if (bridge->volume)
		volume_get_status(bridge->volume, ret_status);
}

void bridge_get_stats(const struct bridge *bridge, struct volume_stats *ret_stats)
{
	*ret_stats = (struct volume_stats){0};
	if (bridge->volume)
		volume_get_stats(bridge->volume, ret_stats);
}
