/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Type 2 memory windows: temporary keys to a piece of a registered region, for one queue pair. A
 * work request binds a window (qp_bind), each time with a new key. The peer's SEND with
 * invalidate, or qp_invalidate, unbinds it (IBA 1.4, 10.6.7.2).
 */
#pragma once

#include <stdint.h>

#include "transport/device.h"

struct ibv_mw;

struct window {
	/* Thread: owner loop of the queue pair; control opens and closes */
	struct ibv_mw *verbs; /* NULL: not open */
	uint32_t rkey;	      /* of the last binding */
};

/* Control. At most limits.max_windows for a device. 0 or -errno. */
int window_open(const struct domain *domain, struct window *window);
/* Control, after its last use by a queue pair and before mr_close of its region. Accepts a zeroed
 * one. */
void window_close(struct window *window);
