/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper's work for the objects of verbs: a peer has requested attention for one of them, a
 * peer has died, or a fault concerns the whole device. All of it runs on the helper thread.
 */
#include "softrdma/chaos/chaos.h"
#include "softrdma/fabric/rq.h"
#include "softrdma/process/part.h"
#include "softrdma/verbs/async.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/verbs/qp_table.h"
#include "softrdma/verbs/removal.h"
#include "softrdma/verbs/sr_cq.h"
#include "softrdma/verbs/srq.h"
#include "softrdma/verbs/xrc.h"
#include "softrdma/fabric/peer.h"
#include "softrdma/fabric/view.h"

static void raise_errors(struct sr_qp *qp, uint32_t events)
{
	if (events & SEG_EV_ACCESS_ERR)
		sr_xrc_raise(qp, IBV_EVENT_QP_ACCESS_ERR);
	if (events & SEG_EV_REQ_ERR)
		sr_xrc_raise(qp, IBV_EVENT_QP_REQ_ERR);
	if (events & SEG_EV_FATAL)
		sr_xrc_raise(qp, IBV_EVENT_QP_FATAL);
	if (events & SEG_EV_COMM_EST)
		sr_xrc_raise(qp, IBV_EVENT_COMM_EST);
}

static void on_qp(uint32_t slot)
{
	struct sr_qp *qp;
	uint32_t events;

	sr_qp_table_lock();
	qp = sr_qp_table[slot];
	if (qp && qp->is_live) {
		events = atomic_exchange(&qp->s->events, 0);
		raise_errors(qp, events);
		pthread_mutex_lock(&qp->sq_lock);
		sr_qp_run(qp); /* flushes if the state is ERR */
		pthread_mutex_unlock(&qp->sq_lock);
	}
	sr_qp_table_unlock();
}

static void peer_died(struct sr_qp *qp, uint64_t arg)
{
	struct sr_peer *dead = (struct sr_peer *)(uintptr_t)arg;

	pthread_mutex_lock(&qp->sq_lock);
	if (qp->end.peer == dead ||
	    sr_qp_is_datagram(qp)) {		    /* any peer may have held a datagram's */
		sr_rq_lock(sr_peer_self, qp->slot); /* repairs what the peer left half done */
		sr_rq_unlock(sr_peer_self, qp->slot);
		sr_qp_run(qp);
	}
	pthread_mutex_unlock(&qp->sq_lock);
}

static void on_peer_died(struct sr_peer *p)
{
	sr_qp_for_each(peer_died, (uintptr_t)p);
	sr_srq_peer_died();
	sr_cq_peer_died();
}

static void fail_one(struct sr_qp *qp, uint64_t arg)
{
	pthread_mutex_lock(&qp->sq_lock);
	if (sr_qp_state(qp) != IBV_QPS_RESET)
		sr_qp_error(qp);
	pthread_mutex_unlock(&qp->sq_lock);
}

static void fail_all(void)
{
	sr_qp_for_each(fail_one, 0);
}

static void kick(struct sr_qp *qp, uint64_t arg)
{
	sr_peer_kick_qp(sr_peer_self, qp->slot, SEG_EV_RESUME);
}

static void kick_all(void)
{
	sr_qp_for_each(kick, 0);
}

static void overrun(struct sr_qp *qp, uint64_t cq_slot)
{
	if ((qp->send_cq && qp->send_cq->slot == cq_slot) ||
	    (qp->recv_cq && qp->recv_cq->slot == cq_slot))
		fail_one(qp, 0);
}

static void on_cq(uint32_t cq_slot)
{
	sr_cq_attention(cq_slot);
	sr_qp_for_each(overrun, cq_slot);
}

/*
 * The device leaves as a driver takes it away: its queue pairs fail, then its owners are notified.
 */
static void begin_removal(void)
{
	if (chaos_removal() == CHAOS_REMOVAL_FATAL)
		sr_async_raise_all(IBV_EVENT_DEVICE_FATAL);
	fail_all();
	SR_FOR_EACH_PART(part)
	if (part->on_removal)
		part->on_removal();
}

static void on_fault(enum sr_fault fault)
{
	switch (fault) {
	case SR_FAULT_PORT:
		sr_async_raise_all(chaos_port_is_down() ? IBV_EVENT_PORT_ERR
							: IBV_EVENT_PORT_ACTIVE);
		kick_all();
		break;
	case SR_FAULT_GID:
		sr_async_raise_all(IBV_EVENT_GID_CHANGE);
		break;
	case SR_FAULT_REMOVE:
		if (sr_removal_want(chaos_removal() != CHAOS_REMOVAL_NONE))
			begin_removal();
		break;
	}
}

/* A peer deregistered the last memory of a memfd: its pages are to be free when it lets go. */
static void on_view(uint32_t slot)
{
	sr_view_sweep(sr_qp_quiesce_senders);
}

static const struct sr_part part = {
	.on_attention = {[SR_ATTENTION_QP] = on_qp,
			 [SR_ATTENTION_CQ] = on_cq,
			 [SR_ATTENTION_SRQ] = sr_srq_attention,
			 [SR_ATTENTION_VIEW] = on_view},
	.on_peer_died = on_peer_died,
	.on_fault = on_fault,
};
SR_PART(part);
