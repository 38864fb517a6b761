/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Type 2 memory windows: keys to a piece of a registered region for one queue pair and for a
 * while. A window is bound by a work request (qp_bind), each time with another key, and unbound by
 * the peer's SEND with invalidate or by qp_invalidate (IBA 1.4, 10.6.7.2).
 */
#pragma once

#include <stdint.h>

#include "transport/device.h"

struct ibv_mw;

struct window {
	/* Thread: the queue pair's owner loop; control opens and closes */
	struct ibv_mw *verbs; /* NULL: not open */
	uint32_t rkey;	      /* of the last binding */
};

/* Control. At most limits.max_windows a device. 0 or -errno. */
int window_open(const struct domain *domain, struct window *window);
/* Control, when no queue pair uses it any more, before its region's mr_close. Accepts a zeroed one. */
void window_close(struct window *window);
