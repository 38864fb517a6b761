/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small SENDs are not copied into the receive: the payload goes into the receive's completion, and
 * the responder scatters it when it polls.
 *
 * A process that has died receives no more messages, although its segment still could.
 *
 * An error of the responder ends its QP too: this side sets its state and kicks its helper, which
 * flushes (qp_run.c). The statuses are those of IBA table 61.
 */
#include "softrdma/fabric/shm/shm.h"

#include <string.h>
#include <sys/uio.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/shm/shm_connect.h"
#include "softrdma/fabric/shm/shm_copy.h"
#include "softrdma/fabric/shm/shm_execute.h"
#include "softrdma/fabric/shm/shm_view.h"
#include "softrdma/process/api.h"
#include "softrdma/trace/trace_rc.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/fabric/xrc.h"
#include "softrdma/trace/trace.h"
#include "softrdma/verbs/mr.h"
#include "softrdma/fabric/completion.h"

/* ---- responder's verdicts -------------------------------------------------- */

static enum ibv_wc_status transact(struct sr_xact *x, enum sr_qp_wait *wait);

/* Executes the READs that this request has overtaken: the responder has answered them, although
 * the responses are still on their way. */
static COLD void answer_late_reads(const struct sr_xact *x)
{
	for (uint64_t i = x->qp->owed; i != x->index; i++) {
		struct sr_xact late = *x;
		enum ibv_wc_status status;
		enum sr_qp_wait wait;

		late.w = sr_qp_wqe(x->qp, i);
		late.index = i;
		if (late.w->stage != WQE_LATE)
			continue;
		status = sr_shm_gather(&late);
		do {
			wait = WAIT_NO;
			status = status ? status : transact(&late, &wait);
		} while (wait == WAIT_CHAOS);
		if (status || wait != WAIT_NO)
			return;
		x->qp->n_late--;
	}
}

/* The responder's QP fails: its owner's helper flushes it and raises the event. */
static enum ibv_wc_status break_responder(struct sr_xact *x, uint32_t events,
					  enum ibv_wc_status status)
{
	if (x->qp->n_late)
		answer_late_reads(x);
	atomic_store(&x->r->state, IBV_QPS_ERR);
	chaos_point();
	sr_peer_kick_qp(x->peer, x->r_slot, events | SEG_EV_FLUSH);
	return status;
}

static enum ibv_wc_status access_error(struct sr_xact *x)
{
	if (sr_qp_is_lossy(x->qp)) /* IBA 9.8.2.2: dropped */
		return IBV_WC_REM_ACCESS_ERR;
	return break_responder(x, SEG_EV_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
}

static void push_recv_error(struct sr_xact *x, const struct sr_taken *t, enum ibv_wc_status status)
{
	struct seg_cqe *e = sr_completion_begin(x->peer, x->r->recv_cq);

	if (e) {
		sr_completion_error(e, atomic_load(&x->r->qpn), t->rqe->wr_id, status);
		sr_taken_name(t, e);
		sr_completion_end(x->peer, x->r->recv_cq, e);
	}
	sr_rq_done(x->peer, x->r_slot, t);
}

/* ---- tracing --------------------------------------------------------------- */

static COLD void trace(const struct sr_xact *x, enum trace_answer answer, uint64_t atomic_old)
{
	const struct trace_message m = {.qp = x->qp,
					.w = x->w,
					.index = x->index,
					.local = x->local,
					.n_local = x->n_local,
					.length = x->length,
					.answer = answer,
					.rnr_timer = x->r->min_rnr_timer & 31,
					.atomic_old = atomic_old};

	trace_message(&m);
}

/* Traces a request that did not succeed, unless it failed before a packet was sent or still
 * waits. */
static COLD void trace_failure(const struct sr_xact *x, enum ibv_wc_status status,
			       enum sr_qp_wait wait)
{
	if (wait == WAIT_RNR && x->qp->wait != WAIT_RNR)
		trace(x, TRACE_RNR, 0);
	else if (wait == WAIT_RETRY && x->qp->wait != WAIT_RETRY)
		trace(x, TRACE_SILENCE, 0);
	else if (status == IBV_WC_REM_INV_REQ_ERR)
		trace(x, TRACE_NAK_REQUEST, 0);
	else if (status == IBV_WC_REM_ACCESS_ERR)
		trace(x, TRACE_NAK_ACCESS, 0);
	else if (status == IBV_WC_REM_OP_ERR)
		trace(x, TRACE_NAK_OPERATION, 0);
}

/* ---- completions ----------------------------------------------------------- */

static unsigned recv_flags(uint32_t opcode)
{
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		return IBV_WC_WITH_IMM;
	return opcode == IBV_WR_SEND_WITH_INV ? IBV_WC_WITH_INV : 0;
}

static void push_recv(struct sr_xact *x, const struct sr_taken *t, const void *inl, size_t inl_len)
{
	const struct sr_wqe *w = x->w;
	struct seg_cqe *e = sr_completion_begin(x->peer, x->r->recv_cq);
	bool write = w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (e) {
		e->wc = (struct ibv_wc){
			.wr_id = t->rqe->wr_id,
			.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
			.byte_len = (uint32_t)x->length,
			.imm_data = w->imm,
			.qp_num = atomic_load_explicit(&x->r->qpn, memory_order_relaxed),
			.src_qp = x->qp->ib.qp_base.qp_num,
			.wc_flags = recv_flags(w->opcode),
		};
		sr_taken_name(t, e);
		e->solicited = !!(w->flags & IBV_SEND_SOLICITED);
		e->inl_len = (uint16_t)inl_len;
		if (inl_len)
			memcpy(e->inl, inl, inl_len);
		sr_completion_end(x->peer, x->r->recv_cq, e);
	}
	sr_rq_done(x->peer, x->r_slot, t);
}

static void note_arrival(struct sr_xact *x)
{
	if (UNLIKELY(atomic_load_explicit(&x->r->state, memory_order_relaxed) == IBV_QPS_RTR &&
		     !x->r->established)) {
		x->r->established = 1;
		sr_peer_kick_qp(x->peer, x->r_slot, SEG_EV_COMM_EST);
	}
}

/* The requester's completion first: the responder must not answer before it is there. */
static void complete_both(struct sr_xact *x, const struct sr_taken *t, const void *inl,
			  size_t inl_len)
{
	bool theirs_first = chaos_on() && t && chaos_remote_first();

	if (trace_on())
		trace(x, TRACE_ACK, 0);
	note_arrival(x);
	if (theirs_first)
		push_recv(x, t, inl, inl_len);
	chaos_point();
	sr_qp_succeed(x->qp, x->index, 0);
	chaos_point();
	if (t && !theirs_first)
		push_recv(x, t, inl, inl_len);
}

/* ---- SEND ------------------------------------------------------------------ */

/* The responder's buffers for this message, checked. */
static enum ibv_wc_status target(struct sr_xact *x, const struct sr_taken *t, struct iovec *to,
				 unsigned *ret_n)
{
	uint64_t left = x->length, va;
	unsigned n = 0;

	for (uint32_t i = 0; i < t->rqe->n_sge && left; i++) {
		const struct ibv_sge *s = &t->rqe->sge[i];
		uint64_t len = left < s->length ? left : s->length;

		if (!len)
			continue;
		if (!sr_mr_allows(x->peer->seg, s->lkey, t->pd, s->addr, s->length,
				  IBV_ACCESS_LOCAL_WRITE, &va))
			return IBV_WC_LOC_PROT_ERR;
		to[n++] = (struct iovec){(void *)(uintptr_t)va, len};
		left -= len;
	}
	*ret_n = n;
	return left ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

/* The requester's status for the receiver's error, IBA table 61. */
static enum ibv_wc_status refuse_receive(struct sr_xact *x, const struct sr_taken *t,
					 enum ibv_wc_status theirs)
{
	if (sr_qp_is_lossy(x->qp) && theirs == IBV_WC_LOC_LEN_ERR)
		return IBV_WC_REM_INV_REQ_ERR; /* IBA 9.8.2.2: dropped, and the receive stays */
	push_recv_error(x, t, theirs);
	if (sr_qp_is_lossy(x->qp)) /* an error of the receiver alone: its completion reports it */
		return break_responder(x, 0, IBV_WC_REM_OP_ERR);
	if (theirs == IBV_WC_LOC_LEN_ERR)
		return break_responder(x, SEG_EV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	return break_responder(x, SEG_EV_FATAL, IBV_WC_REM_OP_ERR);
}

static size_t gather_inline(const struct sr_xact *x, uint8_t *to)
{
	size_t n = 0;

	for (unsigned i = 0; i < x->n_local; i++) {
		memcpy(to + n, x->local[i].iov_base, x->local[i].iov_len);
		n += x->local[i].iov_len;
	}
	return n;
}

/* Only a type 2 window of this QP can be invalidated; user regions cannot. */
static enum ibv_wc_status send_invalidate(struct sr_xact *x, const struct sr_taken *t)
{
	if (x->w->opcode != IBV_WR_SEND_WITH_INV ||
	    sr_mr_invalidate(x->peer->seg, x->w->imm, x->r->pd, atomic_load(&x->r->qpn)))
		return IBV_WC_SUCCESS;
	push_recv_error(x, t, IBV_WC_REM_INV_REQ_ERR); /* as rxe does, for IBA's class J */
	return access_error(x);
}

/* The receive for this message; false: none, the queue waits until one is posted. */
static bool take_receive(struct sr_xact *x, struct sr_taken *t, enum sr_qp_wait *wait)
{
	if (sr_rq_take(x->peer, x->r_slot, t))
		return true;
	if (!sr_qp_is_lossy(x->qp))
		atomic_store(&x->r->waiter, 1); /* Dekker with sr_qp_post_recv: look again after */
	if (sr_rq_take(x->peer, x->r_slot, t))
		return true;
	*wait = WAIT_RNR;
	return false;
}

static enum ibv_wc_status copy_send(struct sr_xact *x, const struct sr_taken *t, struct iovec *to,
				    unsigned n, enum sr_qp_wait *wait)
{
	sr_shm_view_receive(x, t, to, n);
	return sr_shm_copy(x, to, n, wait);
}

static enum ibv_wc_status do_send(struct sr_xact *x, enum sr_qp_wait *wait)
{
	struct iovec to[DEV_MAX_SRQ_SGE] NOINIT;
	uint8_t small[SEG_INLINE] NOINIT;
	size_t inl = 0;
	struct sr_taken t;
	unsigned n;
	enum ibv_wc_status status;

	if (!take_receive(x, &t, wait))
		return IBV_WC_SUCCESS;
	status = target(x, &t, to, &n);
	if (status)
		return refuse_receive(x, &t, status);
	if (x->length <= SEG_INLINE)
		inl = gather_inline(x, small);
	else
		status = copy_send(x, &t, to, n, wait);
	if (status == IBV_WC_REM_OP_ERR)
		return refuse_receive(x, &t, IBV_WC_LOC_PROT_ERR);
	if (!status && !*wait)
		status = send_invalidate(x, &t);
	if (status || *wait)
		return status;
	complete_both(x, &t, small, inl);
	return IBV_WC_SUCCESS;
}

/* ---- WRITE, READ, atomics --------------------------------------------------- */

static enum ibv_wc_status do_write(struct sr_xact *x, enum sr_qp_wait *wait)
{
	bool imm = x->w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	enum ibv_wc_status status;
	struct iovec to;
	struct sr_taken t;

	if (!sr_shm_remote_range(x, IBV_ACCESS_REMOTE_WRITE, x->length, &to))
		return access_error(x);
	if (imm && !take_receive(x, &t, wait))
		return IBV_WC_SUCCESS;
	sr_shm_view_range(x, &to);
	status = sr_shm_copy_range(x, &to, wait);
	if (*wait)
		return status;
	if (status == IBV_WC_REM_OP_ERR) /* the pages vanished under the registration */
		return break_responder(x, SEG_EV_FATAL, status);
	if (status)
		return status;
	complete_both(x, imm ? &t : NULL, NULL, 0);
	return IBV_WC_SUCCESS;
}

/*
 * IBA 9.4.4: a responder refuses more READs and atomics at once than it has resources for. Here
 * they are never under way together. Requests posted in one call count as simultaneous, up to this
 * side's max_rd_atomic, which would have let them out together.
 */
static bool lacks_rd_resources(const struct sr_xact *x)
{
	unsigned limit = x->qp->attr.max_rd_atomic;
	unsigned at_once;

	if (x->w->flags & IBV_SEND_FENCE)
		x->qp->burst = 0;
	at_once = ++x->qp->burst;
	if (at_once > limit)
		at_once = limit;
	return at_once > x->r->max_dest_rd;
}

static enum ibv_wc_status do_read(struct sr_xact *x, enum sr_qp_wait *wait)
{
	enum ibv_wc_status status;
	struct iovec from;

	if (lacks_rd_resources(x))
		return break_responder(x, SEG_EV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	if (!sr_shm_remote_range(x, IBV_ACCESS_REMOTE_READ, x->length, &from))
		return access_error(x);
	sr_shm_view_range(x, &from);
	status = sr_shm_copy_range(x, &from, wait);
	if (*wait)
		return status;
	if (status == IBV_WC_REM_OP_ERR)
		return break_responder(x, SEG_EV_FATAL, status);
	if (status)
		return status;
	if (trace_on())
		trace(x, TRACE_ACK, 0);
	sr_qp_succeed(x->qp, x->index, (uint32_t)x->length);
	return status;
}

static uint64_t atomic_result(const struct sr_xact *x, uint64_t old)
{
	const struct sr_wqe_extra *extra = sr_qp_extra(x->qp, x->w);

	if (x->w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return old + extra->atomic.compare_add;
	return old == extra->atomic.compare_add ? extra->atomic.swap : old;
}

/* IBV_ATOMIC_HCA: atomic among all QPs of the responder's device, not with its CPU. */
static bool fetch_and_modify(struct sr_xact *x, const struct iovec *at, uint64_t *old)
{
	struct seg_lock *l = &x->peer->seg->atomics;
	struct iovec here = {old, 8};
	uint64_t now;
	bool ok;

	sr_lock_take(l);
	ok = process_vm_readv(x->peer->pid, &here, 1, at, 1, 0) == 8;
	now = atomic_result(x, *old);
	here.iov_base = &now;
	ok = ok && process_vm_writev(x->peer->pid, &here, 1, at, 1, 0) == 8;
	sr_lock_give(l);
	return ok;
}

static enum ibv_wc_status do_atomic(struct sr_xact *x)
{
	uint64_t old = 0;
	struct iovec at, here = {&old, 8};

	if (x->length != 8)
		return IBV_WC_LOC_LEN_ERR;
	if (lacks_rd_resources(x) || x->w->remote_addr % 8) /* IBA 9.7.5.2.6: alignment */
		return break_responder(x, SEG_EV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	if (!sr_shm_remote_range(x, IBV_ACCESS_REMOTE_ATOMIC, 8, &at))
		return access_error(x);
	if (!fetch_and_modify(x, &at, &old))
		return break_responder(x, SEG_EV_FATAL, IBV_WC_REM_OP_ERR);
	if (process_vm_writev(sr_peer_self->pid, &here, 1, x->local, x->n_local, 0) != 8)
		return IBV_WC_LOC_PROT_ERR;
	if (trace_on())
		trace(x, TRACE_ACK, old);
	sr_qp_succeed(x->qp, x->index, 8);
	return IBV_WC_SUCCESS;
}

/* ---- the transaction -------------------------------------------------------- */

/* Whether the other end is a QP that is connected to this one. Its lock is held. */
static bool answers(const struct sr_xact *x)
{
	enum ibv_qp_state state = (enum ibv_qp_state)atomic_load(&x->r->state);

	return atomic_load(&x->r->qpn) == x->qp->attr.dest_qp_num && x->r->dest == x->qp->name &&
	       (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD);
}

/* XRC: whether the SRQ that the message names is one of the responder's domain. */
static bool finds_srq(const struct sr_xact *x)
{
	uint32_t number = sr_qp_extra(x->qp, x->w)->srqn;

	return sr_qp_takes_receive(x->w->opcode) ? sr_xrc_aim_receive(x->peer->seg, x->r, number)
						 : sr_xrc_aim(x->peer->seg, x->r, number);
}

static enum ibv_wc_status transact(struct sr_xact *x, enum sr_qp_wait *wait)
{
	if (!answers(x)) {
		if (!sr_qp_is_lossy(x->qp))
			atomic_store(&x->r->waiter, 1); /* its owner kicks when it comes to RTR */
		*wait = WAIT_RETRY;
		return IBV_WC_SUCCESS;
	}
	if (UNLIKELY(sr_qp_is_xrc_send(x->qp)) && !finds_srq(x))
		return break_responder(x, SEG_EV_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	switch ((enum ibv_wr_opcode)x->w->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return do_send(x, wait);
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return do_write(x, wait);
	case IBV_WR_RDMA_READ:
		return do_read(x, wait);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return do_atomic(x);
	default:
		return IBV_WC_LOC_QP_OP_ERR;
	}
}

static bool is_local(uint32_t opcode)
{
	return opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW;
}

static enum ibv_wc_status execute_local(struct sr_qp *qp, const struct sr_wqe *w, uint64_t index)
{
	uint32_t qpn = qp->ib.qp_base.qp_num;
	enum ibv_wc_status status;

	if (w->opcode == IBV_WR_BIND_MW)
		status = sr_mr_bind(sr_qp_extra(qp, w)->bind.mw, w->rkey, qpn,
				    &sr_qp_extra(qp, w)->bind.info);
	else
		status = sr_mr_invalidate(seg_self, w->imm, qp->s->pd, qpn) ? IBV_WC_SUCCESS
									    : IBV_WC_LOC_QP_OP_ERR;
	if (!status)
		sr_qp_succeed(qp, index, 0);
	return status;
}

enum ibv_wc_status sr_shm_execute(struct sr_qp *qp, const struct sr_wqe *w, uint64_t index,
				  enum sr_qp_wait *wait)
{
	struct sr_xact x NOINIT; /* iovecs are filled only as far as used */
	enum ibv_wc_status status;

	if (is_local(w->opcode))
		return execute_local(qp, w, index);
	if (chaos_on() && chaos_port_is_down()) {
		*wait = WAIT_RETRY;
		return IBV_WC_SUCCESS;
	}
	x.qp = qp;
	x.w = w;
	x.index = index;
	status = sr_shm_gather(&x);
	if (status)
		return status;
	if (is_sink(w->opcode) && !qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR; /* no device could send it */
	if (!qp->end.peer)
		sr_shm_seek(qp);
	x.peer = qp->end.peer;
	if (!x.peer || atomic_load(&x.peer->is_dead) || !seg_owner_lives(x.peer->seg)) {
		*wait = WAIT_RETRY;
		return IBV_WC_SUCCESS;
	}
	x.r = qp->end.remote;
	x.r_slot = qp->end.slot;
	sr_rq_lock(x.peer, x.r_slot);
	chaos_point();
	status = transact(&x, wait);
	if (trace_on())
		trace_failure(&x, status, *wait);
	chaos_point();
	sr_rq_unlock(x.peer, x.r_slot);
	return status;
}
