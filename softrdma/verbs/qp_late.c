/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/verbs/qp_complete.h"
#include "softrdma/verbs/qp_late.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/process/likeness.h"
#include "softrdma/verbs/qp_wait.h"

static bool is_read(const struct sr_wqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Starts the timer for the first request whose time is still to come. */
static void arm(struct sr_qp *qp, uint64_t end, uint64_t now)
{
	uint64_t first = UINT64_MAX;

	for (uint64_t i = qp->owed; i != end; i++) {
		const struct sr_wqe *w = sr_qp_wqe(qp, i);

		if ((w->stage == WQE_LATE || w->stage == WQE_OWED) && w->due_ns > now &&
		    w->due_ns < first)
			first = w->due_ns;
	}
	if (first != UINT64_MAX)
		sr_qp_resume_later(qp, &qp->late_timer, first - now);
}

static void complete(struct sr_qp *qp, uint64_t index)
{
	struct sr_wqe *w = sr_qp_wqe(qp, index);

	w->stage = WQE_COMPLETE;
	if (qp->owed == index)
		qp->owed++;
	sr_qp_complete(qp, w, qp->owed, IBV_WC_SUCCESS, w->byte_len);
}

void sr_qp_settle(struct sr_qp *qp, uint64_t end, uint64_t now)
{
	bool overtakes = sr_is_siw();

	for (uint64_t i = qp->owed; i != end; i++) {
		struct sr_wqe *w = sr_qp_wqe(qp, i);

		if (w->stage == WQE_COMPLETE) {
			if (qp->owed == i)
				qp->owed++;
			continue;
		}
		if (w->stage == WQE_LATE && overtakes)
			continue;
		if (w->stage != WQE_OWED || w->due_ns > now)
			return;
		complete(qp, i);
	}
}

void sr_qp_owe(struct sr_qp *qp, uint64_t index, uint32_t byte_len)
{
	struct sr_wqe *w = sr_qp_wqe(qp, index);
	uint64_t now = sr_now_ns();

	w->byte_len = byte_len;
	w->due_ns = now + chaos_ack_ns();
	w->stage = WQE_OWED;
	if (index < qp->exec) /* it was late: the caller continues with the others */
		return;
	sr_qp_settle(qp, index + 1, now);
	arm(qp, index + 1, now);
}

bool sr_qp_put_off(struct sr_qp *qp, struct sr_wqe *w, bool *ret_go_on)
{
	uint64_t now, ns;

	if (!is_read(w) || !qp->attr.max_rd_atomic)
		return false;
	ns = chaos_read_ns();
	if (!ns && !qp->n_late) /* READs do not overtake each other */
		return false;
	*ret_go_on = qp->n_late < qp->attr.max_rd_atomic;
	if (!*ret_go_on)
		return true;
	now = sr_now_ns();
	w->stage = WQE_LATE;
	w->due_ns = now + ns;
	qp->n_late++;
	qp->exec++;
	if (qp->wait != WAIT_NO)
		sr_qp_stop_waiting(qp);
	arm(qp, qp->exec, now);
	return true;
}

/* The response to the READ at index arrives. False: the queue stands still. */
static bool respond(struct sr_qp *qp, uint64_t index, enum ibv_wc_status *ret_status)
{
	enum sr_qp_wait why = WAIT_NO;
	enum ibv_wc_status status = qp->engine->execute(qp, sr_qp_wqe(qp, index), index, &why);

	if (why == WAIT_CHAOS || (why != WAIT_NO && sr_qp_keep_waiting(qp, why)))
		return false;
	if (why != WAIT_NO)
		status = sr_qp_timed_out(why);
	qp->n_late--;
	*ret_status = status;
	return !status;
}

uint64_t sr_qp_hasten(struct sr_qp *qp, uint64_t end, enum ibv_wc_status *status)
{
	for (uint64_t i = qp->owed; i != end; i++) {
		enum ibv_wc_status found = IBV_WC_SUCCESS;
		enum sr_qp_wait why = WAIT_NO;

		if (sr_qp_wqe(qp, i)->stage != WQE_LATE)
			continue;
		do {
			why = WAIT_NO;
			found = qp->engine->execute(qp, sr_qp_wqe(qp, i), i, &why);
		} while (why == WAIT_CHAOS);
		qp->n_late--;
		if (!found && why == WAIT_NO)
			continue;
		*status = found ? found : *status;
		end = i;
		break;
	}
	sr_qp_settle(qp, end, UINT64_MAX);
	return end;
}

bool sr_qp_run_late(struct sr_qp *qp, uint64_t *ret_failed, enum ibv_wc_status *ret_status)
{
	uint64_t now = sr_now_ns();
	bool in_order = true;

	for (uint64_t i = qp->owed; i != qp->exec && in_order; i++) {
		struct sr_wqe *w = sr_qp_wqe(qp, i);

		if (w->stage != WQE_LATE)
			continue;
		in_order = w->due_ns <= now;
		if (in_order && !respond(qp, i, ret_status)) {
			*ret_failed = i;
			return false;
		}
	}
	sr_qp_settle(qp, qp->exec, now);
	arm(qp, qp->exec, now);
	return true;
}

void sr_qp_forget_late(struct sr_qp *qp)
{
	qp->n_late = 0;
	sr_timer_stop(&qp->late_timer);
}
