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
#include "softrdma/verbs/sr_qp.h"

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

/* Fills in x->local and x->length, checked against our own keys. Before the responder is known. */
enum ibv_wc_status sr_shm_gather(struct sr_xact *x);

/* The remote range of a WRITE, READ or atomic, checked against key, domain, bounds, and both access
 * rights. Under the responder's lock. */
bool sr_shm_remote_range(const struct sr_xact *x, uint32_t need, uint64_t length,
			 struct iovec *ret);

/*
 * Whether both sides of the message are mapped here, so that the processor copies it: sets
 * x->is_viewed, fills in x->view, and replaces the responder's addresses by ours. Of a WRITE or
 * READ, and of a SEND whose receive was taken. Under the responder's lock, after the checks.
 */
void sr_shm_view_range(struct sr_xact *x, struct iovec *remote);
void sr_shm_view_receive(struct sr_xact *x, const struct sr_taken *t, struct iovec *to, unsigned n);
/* Copies between two lists of pieces that are mapped here. Overlapping ones have any contents. */
void sr_shm_copy_views(const struct iovec *to, unsigned n_to, const struct iovec *from,
		       unsigned n_from);

/*
 * Copies a SEND that does not fit into a completion, from x->local to the receiver.
 * sr_shm_copy_range: a WRITE or READ, between x->local and the responder's range; what was posted
 * behind it may be copied with it. Under the responder's lock. With *ret_wait set it is to be tried
 * again later; what was copied stays noted.
 */
enum ibv_wc_status sr_shm_copy(const struct sr_xact *x, const struct iovec *remote,
			       unsigned n_remote, enum sr_qp_wait *ret_wait);
enum ibv_wc_status sr_shm_copy_range(const struct sr_xact *x, const struct iovec *remote,
				     enum sr_qp_wait *ret_wait);

/* ---- the calls of struct sr_engine; see fabric/engine.h ---- */

struct sr_peer *sr_shm_find(uint32_t qpn);
void sr_shm_connect(struct sr_qp *qp, struct sr_peer *found);
void sr_shm_disconnect(struct sr_qp *qp);
bool sr_shm_is_connected(const struct sr_qp *qp);
enum ibv_wc_status sr_shm_execute(struct sr_qp *qp, const struct sr_wqe *w, uint64_t index,
				  enum sr_qp_wait *ret_wait);
void sr_shm_kick(struct sr_qp *qp);
uint32_t sr_shm_rnr_timer(const struct sr_qp *qp);

bool sr_shm_send(struct sr_qp *qp, const struct sr_datagram *d);

/* Under sq_lock. Connects a queue pair whose other end was not there at RTR, or has it looked for
 * on another thread, which resumes the queue pair. */
void sr_shm_seek(struct sr_qp *qp);
