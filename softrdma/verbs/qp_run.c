/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running a send queue: executing in order, failing, flushing. sr_qp_run executes from `exec` to
 * `head` until the engine reports that the request must wait; qp_wait.c explains for how long. A
 * waiting queue holds no lock and costs nothing; the helper resumes it.
 *
 * The first failure moves the QP to ERR, after which everything posted completes in order with a
 * flush error. Called on application threads and on the helper, always under sq_lock.
 */

#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/engine.h"
#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/qp_complete.h"
#include "softrdma/verbs/qp_impl.h"
#include "softrdma/verbs/qp_late.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/process/likeness.h"
#include "softrdma/verbs/qp_wait.h"

static void flush_sq(struct sr_qp *qp)
{
	sr_qp_forget_late(qp);
	for (; qp->owed != qp->head; qp->owed++) {
		const struct sr_wqe *w = sr_qp_wqe(qp, qp->owed);

		if (w->stage != WQE_COMPLETE)
			sr_qp_complete(qp, w, qp->owed + 1, IBV_WC_WR_FLUSH_ERR, 0);
	}
	qp->exec = qp->head;
}

void sr_qp_error(struct sr_qp *qp)
{
	bool was = sr_qp_state(qp) == IBV_QPS_ERR;

	sr_qp_stop_waiting(qp);
	sr_rq_lock(sr_peer_self, qp->slot);
	atomic_store(&qp->s->state, IBV_QPS_ERR);
	sr_rq_flush(qp->slot);
	sr_rq_unlock(sr_peer_self, qp->slot);
	flush_sq(qp);
	qp->ib.qp_base.state = IBV_QPS_ERR;
	if (!was)
		qp->has_drained = false;
	if (qp->srq && !sr_is_siw() &&
	    !qp->has_drained) /* IBA 11.6.3.2: this QP takes no more from the SRQ */
		sr_async_raise(qp->ib.qp_base.context, IBV_EVENT_QP_LAST_WQE_REACHED, &qp->ib);
	qp->has_drained = true;
}

void sr_qp_fail(struct sr_qp *qp, uint64_t index, enum ibv_wc_status status)
{
	index = sr_qp_hasten(qp, index, &status); /* a NAK acknowledges all requests before it */
	sr_qp_complete(qp, sr_qp_wqe(qp, index), index + 1, status, 0);
	sr_qp_wqe(qp, index)->stage = WQE_COMPLETE;
	sr_qp_error(qp);
}

/* Draws the faults of this request, once. True: the queue stands still first. */
static bool meet_fate(struct sr_qp *qp, struct sr_wqe *w, enum ibv_wc_status *ret_status)
{
	uint64_t ns;

	w->is_fated = true;
	*ret_status = chaos_status();
	if (*ret_status)
		return false;
	ns = chaos_hold_ns(4096ULL << qp->attr.timeout);
	if (sr_qp_takes_receive(w->opcode) && (qp->type == IBV_QPT_RC || sr_qp_is_xrc_send(qp)) &&
	    chaos_rnr()) {
		if (!qp->attr.rnr_retry)
			*ret_status = IBV_WC_RNR_RETRY_EXC_ERR;
		ns += chaos_rnr_ns(sr_qp_rnr_ns(qp), qp->attr.rnr_retry);
	}
	if (!ns || *ret_status)
		return false;
	sr_qp_hold(qp, ns);
	return true;
}

/* True: this request is over for now, with any result. */
static bool chaos_takes(struct sr_qp *qp, struct sr_wqe *w, bool *ret_go_on)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	*ret_go_on = false;
	if (qp->wait == WAIT_CHAOS && sr_now_ns() < qp->wait_until)
		return true;
	if (!w->is_fated && meet_fate(qp, w, &status))
		return true;
	if (status) {
		sr_qp_fail(qp, qp->exec++, status);
		return true;
	}
	if (qp->n_late && w->flags & IBV_SEND_FENCE)
		return true; /* until the READs before it have completed */
	return sr_qp_put_off(qp, w, ret_go_on);
}

/*
 * UC: nothing repeats what did not arrive, and no answer reports that it did not (IBA 9.8.2).
 * Errors of this side stay errors.
 */
static bool is_lost(const struct sr_qp *qp, enum sr_qp_wait why, enum ibv_wc_status status)
{
	return sr_qp_is_lossy(qp) &&
	       (why != WAIT_NO || status == IBV_WC_REM_ACCESS_ERR ||
		status == IBV_WC_REM_INV_REQ_ERR || status == IBV_WC_REM_OP_ERR);
}

/* Chaos: the message never arrives. */
static bool chaos_drops(const struct sr_qp *qp, const struct sr_wqe *w)
{
	return sr_qp_is_lossy(qp) && !w->moved && w->opcode != IBV_WR_LOCAL_INV &&
	       w->opcode != IBV_WR_BIND_MW && chaos_packet() == CHAOS_PACKET_DROPPED;
}

/* True: continue with the next request. */
static bool run_one(struct sr_qp *qp)
{
	struct sr_wqe *w = sr_qp_wqe(qp, qp->exec);
	enum sr_qp_wait why = WAIT_NO;
	enum ibv_wc_status status;
	bool go_on;

	if ((chaos_on() || qp->n_late) && !qp->engine->completes_later &&
	    chaos_takes(qp, w, &go_on))
		return go_on;
	if (chaos_on() && !qp->engine->completes_later && chaos_drops(qp, w)) {
		sr_qp_succeed(qp, qp->exec++, 0);
		return true;
	}
	status = qp->engine->execute(qp, w, qp->exec, &why);
	if (why == WAIT_CHAOS)
		return false;
	if ((why != WAIT_NO || status) && is_lost(qp, why, status)) {
		sr_qp_succeed(qp, qp->exec, 0);
		why = WAIT_NO;
		status = IBV_WC_SUCCESS;
	}
	if (why != WAIT_NO) {
		if (sr_qp_keep_waiting(qp, why))
			return false;
		status = sr_qp_timed_out(why);
	}
	if (qp->wait != WAIT_NO)
		sr_qp_stop_waiting(qp);
	if (status) {
		sr_qp_fail(qp, qp->exec++, status);
		return false;
	}
	qp->exec++;
	return true;
}

/* True: continue with the requests that are not late. */
static bool run_late(struct sr_qp *qp)
{
	uint64_t failed;
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	bool goes_on = sr_qp_run_late(qp, &failed, &status);

	if (status)
		sr_qp_fail(qp, failed, status);
	return goes_on;
}

static void run_all(struct sr_qp *qp)
{
	for (;;) {
		enum ibv_qp_state state = sr_qp_state(qp);

		if (state == IBV_QPS_ERR) {
			sr_qp_error(qp);
			return;
		}
		if (state != IBV_QPS_RTS ||
		    (qp->owed != qp->exec && !qp->engine->completes_later && !run_late(qp)) ||
		    qp->exec == qp->head || !run_one(qp))
			return;
	}
}

void sr_qp_run(struct sr_qp *qp)
{
	qp->burst = 0;
	run_all(qp);
	if (qp->engine->flush)
		qp->engine->flush(qp);
}
