/* SPDX-License-Identifier: BSD-3-Clause */
/* The share of one backend in common resources: part of struct backend. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* A backend's work for the worker threads: its line (pool.c, under its lock). Zeroed is ready for
 * use, here and below. */
struct backend_work {
	struct list waiting; /* of backend_io.node */
	struct list node;
	unsigned n_waiting, n_running;
};

/* A backend's use of one poller's asynchronous I/O (aio.c, that poller's). */
struct backend_share {
	struct list held;  /* of backend_io.node: beyond its share */
	unsigned n_taken;  /* in flight or next in line */
	unsigned n_places; /* what its disk had room for when it was full; 0: not full */
	bool lacks_nowait; /* the kernel cannot tell whether the disk is full */
	uint8_t apart[96]; /* pollers do not share cache lines */
};
