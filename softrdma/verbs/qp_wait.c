/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/verbs/qp_run.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/verbs/qp_wait.h"

/* IBA table 45: encoded RNR NAK timer, in units of 10 microseconds. */
static const uint32_t rnr_10us[32] = {65536, 1,	   2,	 3,	4,     6,     8,     12,
				      16,    24,   32,	 48,	64,    96,    128,   192,
				      256,   384,  512,	 768,	1024,  1536,  2048,  3072,
				      4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

#define LOOK_AGAIN_MIN_NS 20000000ULL  /* 20 ms */
#define LOOK_AGAIN_MAX_NS 500000000ULL /* 500 ms */

static void on_timer(uint64_t slot)
{
	sr_peer_kick_qp(sr_peer_self, (uint32_t)slot, SEG_EV_RESUME);
}

void sr_qp_resume_later(struct sr_qp *qp, struct sr_timer *t, uint64_t delay_ns)
{
	sr_timer_start(t, delay_ns, on_timer, qp->slot);
}

static uint64_t patience_ns(const struct sr_qp *qp, enum sr_qp_wait why)
{
	if (why == WAIT_RNR)
		return qp->attr.rnr_retry == 7 ? 0
					       : qp->attr.rnr_retry * 10000ULL *
							 rnr_10us[qp->engine->rnr_timer(qp)];
	if (!qp->attr.timeout)
		return 0;
	return (qp->attr.retry_cnt + 1ULL) * (4096ULL << qp->attr.timeout);
}

/* No event reports that a process appears, so each retry looks for it, as a retried packet
 * would. */
static void look_again_later(struct sr_qp *qp, enum sr_qp_wait why, uint64_t now)
{
	uint64_t ns = 4096ULL << qp->attr.timeout;

	if (why != WAIT_RETRY || qp->engine->is_connected(qp))
		return;
	if (!qp->attr.timeout || ns > LOOK_AGAIN_MAX_NS)
		ns = LOOK_AGAIN_MAX_NS;
	if (ns < LOOK_AGAIN_MIN_NS)
		ns = LOOK_AGAIN_MIN_NS;
	if (qp->wait_until && ns > qp->wait_until - now)
		ns = qp->wait_until - now;
	sr_qp_resume_later(qp, &qp->timer, ns);
}

bool sr_qp_keep_waiting(struct sr_qp *qp, enum sr_qp_wait why)
{
	uint64_t wait_ns, now = sr_now_ns();

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
		sr_qp_resume_later(qp, &qp->timer, wait_ns);
	else
		sr_timer_stop(&qp->timer);
	look_again_later(qp, why, now);
	return true;
}

void sr_qp_stop_waiting(struct sr_qp *qp)
{
	if (qp->wait == WAIT_NO)
		return;
	sr_timer_stop(&qp->timer);
	qp->wait = WAIT_NO;
}

enum ibv_wc_status sr_qp_timed_out(enum sr_qp_wait why)
{
	return why == WAIT_RNR ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR;
}

uint64_t sr_qp_rnr_ns(const struct sr_qp *qp)
{
	return qp->engine->is_connected(qp) ? 10000ULL * rnr_10us[qp->engine->rnr_timer(qp)] : 0;
}

void sr_qp_hold(struct sr_qp *qp, uint64_t ns)
{
	qp->wait = WAIT_CHAOS;
	qp->wait_until = sr_now_ns() + ns;
	sr_qp_resume_later(qp, &qp->timer, ns);
}
