/* SPDX-License-Identifier: BSD-3-Clause */
/* The figures that the control socket and the metrics have in common. Control thread; the counters
 * of workers are read while they run. */
#pragma once

#include "nbd_bridge/control/bridge_internal.h"

/* The figures of one NBD client, or of all. */
struct client_figures {
	uint64_t n_requests; /* in flight */
	uint64_t oldest_ns;  /* clock_ns() when the oldest of them came; 0: there is none */
	uint64_t n_held_bytes, n_copied_bytes;
	uint64_t n_blocked;  /* clients that take no replies */
	uint64_t blocked_ns; /* clock_ns() since when one has taken none, the longest; 0: none */
};

/* Adds one client; *into begins zeroed. */
void client_figures_add(struct client_figures *into, const struct conn_figures *of);
/* Now, less a moment that may be later than now by the clocks of threads. */
uint64_t bridge_age_ns(uint64_t since_ns);
/* The volume's own; without one it is closing, and has counted nothing. */
void bridge_get_status(const struct bridge *bridge, struct volume_status *ret_status);
void bridge_get_stats(const struct bridge *bridge, struct volume_stats *ret_stats);

/* As in JSON and in labels. */
extern const char *const bridge_op_names[VOLUME_OPS];
extern const char *const bridge_class_names[VOLUME_CLASSES];
extern const char *const bridge_way_names[FENCING_WAYS];
