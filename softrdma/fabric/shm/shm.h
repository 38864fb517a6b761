/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine for processes of one host: finding the memory of both sides of a message, and copying
 * it (an adapter's DMA).
 *
 * The thread that runs the send queue calls these functions, under the queue pair's sq_lock: an
 * application thread, or the helper for a queue that has waited. A transaction lives on that
 * thread's stack and borrows all that it points to. Errors are the ibv_wc_status of the work
 * request.
 */
#pragma once

#include <sys/uio.h>

#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/verbs/qp_impl.h"

/* Spares the hot path what -ftrivial-auto-var-init would clear. */
#define NOINIT __attribute__((uninitialized))

/* One transaction: the requester's side and what was found about the responder. */
struct sr_xact {
	struct sr_qp *qp;
	const struct sr_wqe *w;
	uint64_t index;
	struct sr_peer *peer;
	struct seg_qp *r; /* responder QP, locked */
	uint32_t r_slot;
	uint64_t length;
	unsigned n_local;
	bool is_viewed; /* both sides are mapped here: view has the pieces of local */
	struct iovec local[DEV_MAX_SGE];
	struct iovec view[DEV_MAX_SGE];
};

/* Whether the requester's memory is written: READs and atomics. */
static inline bool is_sink(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
