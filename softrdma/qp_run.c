/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running a send queue: executing in order, waiting, resuming, failing, flushing.
 *
 * qp_run executes from `exec` to `head` until the engine says that it must wait:
 *   RNR     the receiver has no receive posted: until it posts one (its owner kicks
 *           us) or min_rnr_timer x rnr_retry is over; 7 retries mean for ever
 *   RETRY   the other end does not answer (not RTR yet, gone, dead): until it comes
 *           to RTR or the transport's retries are over
 * A waiting queue holds no lock and costs nothing; the helper resumes it.
 *
 * The first failure moves the QP to ERR, after which everything posted completes
 * in order with a flush error. Called on application threads and on the helper,
 * always under sq_lock.
 */
#include "qp.h"

#include "chaos.h"
#include "engine.h"
#include "lock.h"
#include "peer.h"
#include "qp_late.h"
#include "rq.h"

/* IBA table 45: encoded RNR NAK timer, in units of 10 microseconds. */
static const uint32_t rnr_10us[32] = {65536, 1,	   2,	 3,	4,     6,     8,     12,
				      16,    24,   32,	 48,	64,    96,    128,   192,
				      256,   384,  512,	 768,	1024,  1536,  2048,  3072,
				      4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

#define LOOK_AGAIN_MIN_NS 20000000ULL  /* 20 ms */
#define LOOK_AGAIN_MAX_NS 500000000ULL /* 500 ms */

static void on_timer(uint64_t slot)
{
	peer_kick_qp(peer_self, (uint32_t)slot, SEG_EV_RESUME);
}

void qp_resume_later(struct qp *qp, struct timer *t, uint64_t delay_ns)
{
	timer_start(t, delay_ns, on_timer, qp->slot);
}

static uint64_t patience_ns(const struct qp *qp, enum qp_wait why)
{
	if (why == WAIT_RNR)
		return qp->attr.rnr_retry == 7 ? 0
					       : qp->attr.rnr_retry * 10000ULL *
							 rnr_10us[qp->remote->min_rnr_timer & 31];
	if (!qp->attr.timeout)
		return 0;
	return (qp->attr.retry_cnt + 1ULL) * (4096ULL << qp->attr.timeout);
}

/* Nobody tells us when a process appears, so each retry looks for it, as a packet would. */
static void look_again_later(struct qp *qp, enum qp_wait why, uint64_t now)
{
	uint64_t ns = 4096ULL << qp->attr.timeout;

	if (why != WAIT_RETRY || qp->peer)
		return;
	if (!qp->attr.timeout || ns > LOOK_AGAIN_MAX_NS)
		ns = LOOK_AGAIN_MAX_NS;
	if (ns < LOOK_AGAIN_MIN_NS)
		ns = LOOK_AGAIN_MIN_NS;
	if (qp->wait_until && ns > qp->wait_until - now)
		ns = qp->wait_until - now;
	qp_resume_later(qp, &qp->timer, ns);
}

bool qp_keep_waiting(struct qp *qp, enum qp_wait why)
{
	uint64_t wait_ns, now = now_ns();

	if (qp->wait == why) {
		if (qp->wait_until && now >= qp->wait_until)
			return false;
		look_again_later(qp, why, now);
		return true;
	}
	if (why == WAIT_RNR && !qp->attr.rnr_retry)
		return false;
	wait_ns = patience_ns(qp, why);
	qp->wait = why;
	qp->wait_until = wait_ns ? now + wait_ns : 0;
	if (wait_ns)
		qp_resume_later(qp, &qp->timer, wait_ns);
	else
		timer_stop(&qp->timer);
	look_again_later(qp, why, now);
	return true;
}

void qp_stop_waiting(struct qp *qp)
{
	if (qp->wait == WAIT_NO)
		return;
	timer_stop(&qp->timer);
	qp->wait = WAIT_NO;
}

static void flush_sq(struct qp *qp)
{
	qp_forget_late(qp);
	for (; qp->owed != qp->head; qp->owed++) {
		const struct wqe *w = qp_wqe(qp, qp->owed);

		if (w->stage != WQE_COMPLETE)
			qp_complete(qp, w, qp->owed + 1, IBV_WC_WR_FLUSH_ERR, 0);
	}
	qp->exec = qp->head;
}

void qp_error(struct qp *qp)
{
	bool was = qp_state(qp) == IBV_QPS_ERR;

	qp_stop_waiting(qp);
	rq_lock(peer_self, qp->slot);
	atomic_store(&qp->s->state, IBV_QPS_ERR);
	rq_flush(qp->slot);
	rq_unlock(peer_self, qp->slot);
	flush_sq(qp);
	qp->ib.qp_base.state = IBV_QPS_ERR;
	if (!was)
		qp->drained = false;
	if (qp->srq && !dev_is_siw() &&
	    !qp->drained) /* IBA 11.6.3.2: the SRQ gets no further use from us */
		async_raise(qp->ib.qp_base.context, IBV_EVENT_QP_LAST_WQE_REACHED, &qp->ib);
	qp->drained = true;
}

enum ibv_wc_status qp_timed_out(enum qp_wait why)
{
	return why == WAIT_RNR ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR;
}

void qp_fail(struct qp *qp, uint64_t index, enum ibv_wc_status status)
{
	index = qp_hasten(qp, index, &status); /* a NAK acknowledges what is before it */
	qp_complete(qp, qp_wqe(qp, index), index + 1, status, 0);
	qp_wqe(qp, index)->stage = WQE_COMPLETE;
	qp_error(qp);
}

static uint64_t rnr_ns(const struct qp *qp)
{
	return qp->remote ? 10000ULL * rnr_10us[qp->remote->min_rnr_timer & 31] : 0;
}

static bool wants_receive(const struct wqe *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM ||
	       w->opcode == IBV_WR_SEND_WITH_INV || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* What chaos has in store for this request, asked once. True: stand still first. */
static bool meet_fate(struct qp *qp, struct wqe *w, enum ibv_wc_status *ret_status)
{
	uint64_t ns;

	w->fated = true;
	*ret_status = chaos_status();
	if (*ret_status)
		return false;
	ns = chaos_hold_ns(4096ULL << qp->attr.timeout);
	if (wants_receive(w) && chaos_rnr()) {
		if (!qp->attr.rnr_retry)
			*ret_status = IBV_WC_RNR_RETRY_EXC_ERR;
		ns += chaos_rnr_ns(rnr_ns(qp), qp->attr.rnr_retry);
	}
	if (!ns || *ret_status)
		return false;
	qp_hold(qp, ns);
	return true;
}

void qp_hold(struct qp *qp, uint64_t ns)
{
	qp->wait = WAIT_CHAOS;
	qp->wait_until = now_ns() + ns;
	qp_resume_later(qp, &qp->timer, ns);
}

/* True: through with this request for now, whatever became of it. */
static bool chaos_takes(struct qp *qp, struct wqe *w, bool *ret_go_on)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	*ret_go_on = false;
	if (qp->wait == WAIT_CHAOS && now_ns() < qp->wait_until)
		return true;
	if (!w->fated && meet_fate(qp, w, &status))
		return true;
	if (status) {
		qp_fail(qp, qp->exec++, status);
		return true;
	}
	if (qp->n_late && w->flags & IBV_SEND_FENCE)
		return true; /* until the READs before it are through */
	return qp_put_off(qp, w, ret_go_on);
}

/* True: on to the next. */
static bool run_one(struct qp *qp)
{
	struct wqe *w = qp_wqe(qp, qp->exec);
	enum qp_wait why = WAIT_NO;
	enum ibv_wc_status status;
	bool go_on;

	if ((chaos_on() || qp->n_late) && chaos_takes(qp, w, &go_on))
		return go_on;
	status = engine_execute(qp, w, qp->exec, &why);
	if (why == WAIT_CHAOS)
		return false;
	if (why != WAIT_NO) {
		if (qp_keep_waiting(qp, why))
			return false;
		status = qp_timed_out(why);
	}
	if (qp->wait != WAIT_NO)
		qp_stop_waiting(qp);
	if (status) {
		qp_fail(qp, qp->exec++, status);
		return false;
	}
	qp->exec++;
	return true;
}

void qp_run(struct qp *qp)
{
	qp->burst = 0;
	for (;;) {
		enum ibv_qp_state state = qp_state(qp);

		if (state == IBV_QPS_ERR) {
			qp_error(qp);
			return;
		}
		if (state != IBV_QPS_RTS || (qp->owed != qp->exec && !qp_run_late(qp)) ||
		    qp->exec == qp->head || !run_one(qp))
			return;
	}
}

/* ---- kicks ----------------------------------------------------------------- */

static void kick_other_end(struct qp *qp)
{
	struct peer *p = qp->peer;

	if (p && !atomic_load(&p->dead))
		peer_kick_qp(p, qp->remote_slot, SEG_EV_RESUME);
}

void qp_kick_waiter(uint32_t slot)
{
	struct qp *qp = qp_table[slot];

	if (atomic_exchange(&qp->s->waiter, 0))
		kick_other_end(qp);
}

static void for_each(void (*fn)(struct qp *qp, uint64_t arg), uint64_t arg)
{
	uint32_t n = atomic_load(&seg_self->n_base) * 256;

	qp_table_lock();
	for (uint32_t i = 0; i < n; i++)
		if (qp_table[i] && qp_table[i]->live)
			fn(qp_table[i], arg);
	qp_table_unlock();
}

static void kick_if_srq(struct qp *qp, uint64_t srq_slot)
{
	if (qp->srq && qp->srq->slot == srq_slot && atomic_exchange(&qp->s->waiter, 0)) {
		pthread_mutex_lock(&qp->sq_lock);
		kick_other_end(qp);
		pthread_mutex_unlock(&qp->sq_lock);
	}
}

void qp_kick_srq_waiters(uint32_t srq_slot)
{
	for_each(kick_if_srq, srq_slot);
}

static void quiesce(struct qp *qp, uint64_t arg)
{
	pthread_mutex_lock(&qp->sq_lock);
	pthread_mutex_unlock(&qp->sq_lock);
	lock_quiesce(&qp->s->lock);
}

void qp_quiesce_all(void)
{
	for_each(quiesce, 0);
}

/* ---- helper ---------------------------------------------------------------- */

static void raise_errors(struct qp *qp, uint32_t events)
{
	struct ibv_context *c = qp->ib.qp_base.context;

	if (events & SEG_EV_ACCESS_ERR)
		async_raise(c, IBV_EVENT_QP_ACCESS_ERR, &qp->ib);
	if (events & SEG_EV_REQ_ERR)
		async_raise(c, IBV_EVENT_QP_REQ_ERR, &qp->ib);
	if (events & SEG_EV_FATAL)
		async_raise(c, IBV_EVENT_QP_FATAL, &qp->ib);
	if (events & SEG_EV_COMM_EST)
		async_raise(c, IBV_EVENT_COMM_EST, &qp->ib);
}

void qp_attention(uint32_t slot)
{
	struct qp *qp;
	uint32_t events;

	qp_table_lock();
	qp = qp_table[slot];
	if (qp && qp->live) {
		events = atomic_exchange(&qp->s->events, 0);
		raise_errors(qp, events);
		pthread_mutex_lock(&qp->sq_lock);
		qp_run(qp); /* flushes if the state is ERR */
		pthread_mutex_unlock(&qp->sq_lock);
	}
	qp_table_unlock();
}

static void peer_died(struct qp *qp, uint64_t arg)
{
	struct peer *dead = (struct peer *)(uintptr_t)arg;

	pthread_mutex_lock(&qp->sq_lock);
	if (qp->peer == dead) {
		rq_lock(peer_self, qp->slot); /* repairs what it left half done */
		rq_unlock(peer_self, qp->slot);
		qp_run(qp);
	}
	pthread_mutex_unlock(&qp->sq_lock);
}

void qp_peer_died(struct peer *p)
{
	for_each(peer_died, (uintptr_t)p);
	srq_peer_died();
	cq_peer_died();
}

static void fail_one(struct qp *qp, uint64_t arg)
{
	pthread_mutex_lock(&qp->sq_lock);
	if (qp_state(qp) != IBV_QPS_RESET)
		qp_error(qp);
	pthread_mutex_unlock(&qp->sq_lock);
}

void qp_fail_all(void)
{
	for_each(fail_one, 0);
}

static void kick(struct qp *qp, uint64_t arg)
{
	peer_kick_qp(peer_self, qp->slot, SEG_EV_RESUME);
}

void qp_kick_all(void)
{
	for_each(kick, 0);
}

static void overrun(struct qp *qp, uint64_t cq_slot)
{
	if (qp->send_cq->slot == cq_slot || qp->recv_cq->slot == cq_slot)
		fail_one(qp, 0);
}

void qp_cq_overrun(uint32_t cq_slot)
{
	for_each(overrun, cq_slot);
}
