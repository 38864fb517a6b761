/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A completion queue and its completion channel, as a polled source of one loop. Each completion
 * goes to the struct work that wr_id points to. There is no switch on opcodes, because a failed
 * work request defines only wr_id, status and qp_num (ibv_poll_cq(3)).
 *
 * Threads: control makes, grows and destroys the queue; the owner loop polls it. The queue
 * outlives all queue pairs and receive rings on it. Errors are -errno.
 */
#pragma once

#include "transport/cq_impl.h"

/* Whether the queue pair broke before the work request ran. */
bool completion_is_flush(const struct completion *c);
const char *completion_string(const struct completion *c);

/* Any thread, before cq_start. The queue begins with depth entries and grows to max_depth, both
 * clamped to the device's limit. On a device without resizing it has max_depth from the start. 0 or
 * -errno. */
int cq_init(struct cq *cq, struct device *device, struct loop *loop, unsigned depth,
	    unsigned max_depth);
/* After cq_stop. Accepts a zeroed one. */
void cq_deinit(struct cq *cq);
/* Control, also while the owner loop polls. Reserves n entries, and grows the queue if it must.
 * Queue pairs and rings reserve before they post anything, so the queue cannot overrun. 0;
 * -ENOSPC: it cannot grow so far; or -errno. */
int cq_reserve(struct cq *cq, unsigned n);
void cq_release(struct cq *cq, unsigned n);

/* The table of attached queue pairs by number. 0 or -ENOMEM. */
int cq_attach(struct cq *cq, struct qp *qp);
void cq_detach(struct cq *cq, struct qp *qp);
/* NULL: none of this number is attached. */
struct qp *cq_find(const struct cq *cq, uint32_t number);
