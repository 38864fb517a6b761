/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues of lanes: one for all those of a path that share a loop, which then
 * polls one place for all their completions. If the device cannot make it large enough, there are
 * several.
 */
#pragma once

#include "transport/cq.h"

struct lane_cq {
	/* Thread: control */
	struct list node; /* of the path */
	unsigned n_users; /* lanes that were made on it */
	/* Thread: see the struct's own comment. */
	struct cq cq;
	/* Thread: I/O loop */
	unsigned n_started; /* users whose queue pairs are being attached, or are */
};

/* Control. One of cqs with room for n further completions, for a queue pair that is made next,
 * or another one, large enough for n_queues such. 0 or -errno. */
int lane_cq_take(struct list *cqs, struct device *device, struct loop *loop, unsigned n,
		 unsigned n_queues, struct lane_cq **ret_cq);
/* Control, when the queue pair is gone. The last one's frees it. Accepts NULL. */
void lane_cq_give(struct lane_cq *cq);

/* I/O loop, before a queue pair is attached and after it was detached. The first one's begins
 * polling (0 or -errno), the last one's ends it. */
int lane_cq_start(struct lane_cq *cq);
void lane_cq_stop(struct lane_cq *cq);
