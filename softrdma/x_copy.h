/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <sys/uio.h>

#include "qp.h"

/* Where a message lies on either side, and moving it: the engine's DMA. */

/* Spares the hot path what -ftrivial-auto-var-init would clear. */
#define NOINIT __attribute__((uninitialized))

/* One transaction: the requester's side and what was found about the responder. */
struct xact {
	struct qp *qp;
	const struct wqe *w;
	uint64_t index;
	struct peer *peer;
	struct seg_qp *r; /* responder QP, locked */
	uint32_t r_slot;
	uint64_t length;
	unsigned n_local;
	struct iovec local[DEV_MAX_SGE];
};

/* Whether the requester's memory is written: READs and atomics. */
static inline bool is_sink(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Fills in x->local and x->length, checked against our own keys. Before the responder is known. */
enum ibv_wc_status x_gather(struct xact *x);

/* The remote range of a WRITE, READ or atomic, checked against key, domain, bounds, and both access
 * rights. Under the responder's lock. */
bool x_remote_range(const struct xact *x, uint32_t need, uint64_t length, struct iovec *ret);

/*
 * Copies a SEND that does not fit into a completion, from x->local to the receiver. x_copy_range: a WRITE
 * or READ, between x->local and the responder's range; what was posted behind it may be copied with it.
 * Under the responder's lock. With *ret_wait set it is to be tried again later; what was copied stays noted.
 */
enum ibv_wc_status x_copy(const struct xact *x, const struct iovec *remote, unsigned n_remote,
			  enum qp_wait *ret_wait);
enum ibv_wc_status x_copy_range(const struct xact *x, const struct iovec *remote,
				enum qp_wait *ret_wait);
