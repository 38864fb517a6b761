/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Send work requests that are late, because chaos says so:
 *
 *   owed      executed, but the acknowledgement is on its way: the peer may have answered
 *             before the completion is there
 *   late      a READ or atomic whose response is on its way: what was posted after it and
 *             without a fence is executed before it (IBA table 76)
 *
 *      complete | owed, late, complete in any order | to be executed | free
 *               ^ owed                              ^ exec           ^ head
 *
 * Completions come in posting order, except on a device like siw: there a SEND's or
 * WRITE's does not wait for a READ before it. The slots of a queue are given back in
 * order all the same. Without chaos nothing is ever late: owed == exec.
 */
#include "qp_late.h"

#include "engine.h"

static bool is_read(const struct wqe *w)
{
	return w->opcode == IBV_WR_RDMA_READ || w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Wakes us for the first of those that have their time still before them. */
static void arm(struct qp *qp, uint64_t end, uint64_t now)
{
	uint64_t first = UINT64_MAX;

	for (uint64_t i = qp->owed; i != end; i++) {
		const struct wqe *w = qp_wqe(qp, i);

		if ((w->stage == WQE_LATE || w->stage == WQE_OWED) && w->due_ns > now &&
		    w->due_ns < first)
			first = w->due_ns;
	}
	if (first != UINT64_MAX)
		qp_resume_later(qp, &qp->late_timer, first - now);
}

static void complete(struct qp *qp, uint64_t index)
{
	struct wqe *w = qp_wqe(qp, index);

	w->stage = WQE_COMPLETE;
	if (qp->owed == index)
		qp->owed++;
	qp_complete(qp, w, qp->owed, IBV_WC_SUCCESS, w->byte_len);
}

void qp_settle(struct qp *qp, uint64_t end, uint64_t now)
{
	bool overtakes = dev_is_siw();

	for (uint64_t i = qp->owed; i != end; i++) {
		struct wqe *w = qp_wqe(qp, i);

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

void qp_owe(struct qp *qp, uint64_t index, uint32_t byte_len)
{
	struct wqe *w = qp_wqe(qp, index);
	uint64_t now = now_ns();

	w->byte_len = byte_len;
	w->due_ns = now + chaos_ack_ns();
	w->stage = WQE_OWED;
	if (index < qp->exec) /* it was late: the caller goes on with the others */
		return;
	qp_settle(qp, index + 1, now);
	arm(qp, index + 1, now);
}

bool qp_put_off(struct qp *qp, struct wqe *w, bool *ret_go_on)
{
	uint64_t now, ns;

	if (!is_read(w) || !qp->attr.max_rd_atomic)
		return false;
	ns = chaos_read_ns();
	if (!ns && !qp->n_late) /* one READ does not overtake another */
		return false;
	*ret_go_on = qp->n_late < qp->attr.max_rd_atomic;
	if (!*ret_go_on)
		return true;
	now = now_ns();
	w->stage = WQE_LATE;
	w->due_ns = now + ns;
	qp->n_late++;
	qp->exec++;
	if (qp->wait != WAIT_NO)
		qp_stop_waiting(qp);
	arm(qp, qp->exec, now);
	return true;
}

/* The response to the READ at index arrives. False: the queue stands still. */
static bool respond(struct qp *qp, uint64_t index)
{
	enum qp_wait why = WAIT_NO;
	enum ibv_wc_status status = engine_execute(qp, qp_wqe(qp, index), index, &why);

	if (why == WAIT_CHAOS || (why != WAIT_NO && qp_keep_waiting(qp, why)))
		return false;
	if (why != WAIT_NO)
		status = qp_timed_out(why);
	qp->n_late--;
	if (status)
		qp_fail(qp, index, status);
	return !status;
}

uint64_t qp_hasten(struct qp *qp, uint64_t end, enum ibv_wc_status *status)
{
	for (uint64_t i = qp->owed; i != end; i++) {
		enum ibv_wc_status found = IBV_WC_SUCCESS;
		enum qp_wait why = WAIT_NO;

		if (qp_wqe(qp, i)->stage != WQE_LATE)
			continue;
		do {
			why = WAIT_NO;
			found = engine_execute(qp, qp_wqe(qp, i), i, &why);
		} while (why == WAIT_CHAOS);
		qp->n_late--;
		if (!found && why == WAIT_NO)
			continue;
		*status = found ? found : *status;
		end = i;
		break;
	}
	qp_settle(qp, end, UINT64_MAX);
	return end;
}

bool qp_run_late(struct qp *qp)
{
	uint64_t now = now_ns();
	bool in_order = true;

	for (uint64_t i = qp->owed; i != qp->exec && in_order; i++) {
		struct wqe *w = qp_wqe(qp, i);

		if (w->stage != WQE_LATE)
			continue;
		in_order = w->due_ns <= now;
		if (in_order && !respond(qp, i))
			return false;
	}
	qp_settle(qp, qp->exec, now);
	arm(qp, qp->exec, now);
	return true;
}

void qp_forget_late(struct qp *qp)
{
	qp->n_late = 0;
	timer_stop(&qp->late_timer);
}
