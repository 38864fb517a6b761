/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reliable-connected queue pair. Work requests are queued in a chain and posted in one call, at
 * the end of the loop's turn or by qp_flush. The caller checks qp_n_free first and waits for
 * on_credit if there is no slot, so a post never fails for lack of room.
 *
 * The queue pair decides which requests are signaled: the last of a chain in which a caller needs
 * a completion, and at least one in each quarter of the queue. Completions arrive in order, so one
 * completes all requests before it; done is called for each of them exactly once.
 *
 * Life: init (control) -> attach (owner loop; posts receives) -> [CM connects it] -> live ->
 * qp_drain (owner loop): it goes to the error state, all posted requests come back -> on_drained
 * -> detach (owner loop) -> deinit (control). enum qp_state has these steps.
 */
#pragma once

#include "transport/qp_impl.h"

struct qp_config {
	struct cq *cq;
	const struct domain *domain;
	struct recv_ring *shared_ring; /* borrowed; NULL: qp_init makes an own one */
	unsigned n_recv;
	uint32_t recv_capsule_bytes, recv_data_bytes;
	unsigned send_depth;   /* slots; clamped to the device's limit */
	unsigned n_sges;       /* pieces of memory of a SEND, at most; 1 to QP_SGE_MAX */
	unsigned inline_bytes; /* longest inline SEND; at most QP_INLINE_MAX */
};

/* Control. Makes the queue pair on the cm id; reserves cq entries. 0 or -errno. */
int qp_init(struct qp *qp, struct rdma_cm_id *id, const struct qp_config *config);
/* Owner loop, after all callbacks are set (and on_recv of an own ring). Posts own receives. */
int qp_attach(struct qp *qp);

/* Owner loop, once. Moves the queue pair to the error state. on_drained follows, never from
 * inside, when all requests and the receives of an own ring are back. After 2 s without a
 * completion control destroys the queue pair, so that the device ends its use of the rest, which
 * is then flushed. */
void qp_drain(struct qp *qp);
/* Owner loop, after on_drained. */
void qp_detach(struct qp *qp);
/* Control, after qp_detach (or if never attached). Accepts a zeroed one. */
void qp_deinit(struct qp *qp);
