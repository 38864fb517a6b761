/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   active                                   passive
 *   connect ---- REQ{private data} ---------> CONNECT_REQUEST
 *   CONNECT_RESPONSE <-- REP{private data} -- accept (QP is in RTS already)
 *   get_cm_event: QP -> RTS; ESTABLISHED --- RTU --> ESTABLISHED
 *   DISCONNECTED <------- DREQ / DREP ------ disconnect ... DISCONNECTED
 *
 * A way (cm_way.h) carries the messages. The helper handles here what a way brings from the peer;
 * the thread that calls sends. All under sr_cm_lock, except that QPs are modified without it.
 */
#include "softrdma/cm/cm_conn.h"
#include "softrdma/cm/cm_device.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/cm_qp.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/sr_cm.h"
#include "softrdma/verbs/gid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	TIMEWAIT_MS = 20,
};

#define MS 1000000ULL

/* ---- queue pairs ----------------------------------------------------------- */

static int modify(struct sr_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, r;

	if (rdma_init_qp_attr(&id->ib, &attr, &mask))
		return -errno;
	r = ibv_modify_qp(id->ib.qp, &attr, mask);
	return -r;
}

int sr_cm_to_rtr_rts(struct sr_cm_id *id)
{
	int r = modify(id, IBV_QPS_INIT); /* again: the access rights are known only now */

	if (!r)
		r = modify(id, IBV_QPS_RTR);
	return r ? r : modify(id, IBV_QPS_RTS);
}

void sr_cm_on_failed(struct sr_cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (id->ib.qp)
		ibv_modify_qp(id->ib.qp, &attr, IBV_QP_STATE);
}

/* ---- connecting ------------------------------------------------------------ */

void sr_cm_raise_failed(struct sr_cm_id *id, enum rdma_cm_event_type type, int status,
			const struct sr_cm_msg *m)
{
	static const struct sr_cm_msg none;
	struct sr_cm_event *e = sr_cm_event_new(id, type, status);

	id->state = CM_CLOSED;
	sr_timer_stop(&id->timer);
	if (!e)
		return;
	if (sr_cm_is_datagram(id)) { /* a failed resolution has this event only */
		e->ev.event = RDMA_CM_EVENT_UNREACHABLE;
		if (type == RDMA_CM_EVENT_REJECTED)
			e->ev.status = status == CM_REJ_NO_LISTENER ? CM_SIDR_NO_LISTENER
								    : CM_SIDR_REJECTED;
		sr_cm_event_datagram(e, m ? m : &none, CM_SIDR_REP_DATA);
	} else {
		sr_cm_event_data(e, m ? m : &none, CM_REJ_DATA);
	}
	sr_cm_event_queue(id->ib.channel, e);
}

int sr_cm_establish(struct sr_cm_id *id)
{
	int r = -EINVAL;

	pthread_mutex_lock(&sr_cm_lock);
	if (id->state == CM_REP_RECEIVED) {
		id->state = CM_ESTABLISHED;
		r = sr_cm_send(id, CM_MSG_RTU);
		if (r == -EPIPE || r == -ECONNRESET)
			r = 0; /* the peer died just now: its hang-up becomes DISCONNECTED */
	}
	pthread_mutex_unlock(&sr_cm_lock);
	return r;
}

static void give_up(struct sr_cm_id *id)
{
	pthread_mutex_lock(&sr_cm_lock);
	if (id->state == CM_REP_RECEIVED) {
		sr_cm_reject(id, CM_REJ_CONSUMER, NULL, 0);
		id->state = CM_CLOSED;
	}
	pthread_mutex_unlock(&sr_cm_lock);
}

void sr_cm_finish_connect(struct sr_cm_id *id, struct sr_cm_event *e)
{
	int r;

	if (!id->ib.qp)
		return; /* the application has its own QP and calls rdma_establish */
	r = sr_cm_to_rtr_rts(id);
	if (!r)
		r = sr_cm_establish(id);
	if (!r) {
		e->ev.event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	e->ev.event = RDMA_CM_EVENT_CONNECT_ERROR;
	e->ev.status = r;
	give_up(id);
	sr_cm_on_failed(id);
}

/* ---- time -------------------------------------------------------------------- */

void sr_cm_start_timer(struct sr_cm_id *id, uint64_t ms)
{
	if (!id->way->keeps_time)
		sr_timer_start(&id->timer, ms * MS, sr_cm_on_timer, id->serial);
}

/* ---- disconnecting --------------------------------------------------------- */

void sr_cm_enter_timewait(struct sr_cm_id *id)
{
	id->state = CM_CLOSED;
	sr_cm_start_timer(id, TIMEWAIT_MS);
}

void sr_cm_on_disconnected(struct sr_cm_id *id, int status)
{
	sr_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, status);
	sr_cm_enter_timewait(id);
}

/* ---- helper: timers and packets -------------------------------------------- */

void sr_cm_on_timer(uint64_t serial)
{
	struct sr_cm_id *id;

	pthread_mutex_lock(&sr_cm_lock);
	id = sr_cm_find(serial);
	if (id && id->state == CM_EMBRYO) /* silent for too long; no program knows of it */
		sr_cm_free(id);
	else if (id && id->state == CM_REQ_FLYING)
		id->way->request(id);
	else if (id && id->state == CM_REQ_SENT)
		sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
	else if (id && id->state == CM_DREQ_SENT)
		sr_cm_on_disconnected(id, 0);
	else if (id && id->state == CM_CLOSED)
		sr_cm_raise(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	pthread_mutex_unlock(&sr_cm_lock);
}

static void remember(struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	id->remote_qpn = m->qpn;
	id->remote_psn = m->psn;
	id->rnr_retry_count = m->rnr_retry_count;
	id->responder_resources = m->initiator_depth;
	id->initiator_depth = m->responder_resources;
}

static void take_request(struct sr_cm_id *id, const struct sr_cm_id *l, const struct sr_cm_msg *m)
{
	id->ib.channel = l->ib.channel;
	id->ib.context = l->ib.context;
	id->ib.ps = l->ib.ps;
	id->ib.qp_type = l->ib.qp_type;
	memcpy(&id->ib.route.addr.src_storage, &m->dst, sizeof(m->dst));
	memcpy(&id->ib.route.addr.dst_storage, &m->src, sizeof(m->src));
	sr_gid_from_sockaddr(&id->ib.route.addr.src_addr, &id->ib.route.addr.addr.ibaddr.sgid);
	sr_gid_from_sockaddr(&id->ib.route.addr.dst_addr, &id->ib.route.addr.addr.ibaddr.dgid);
	remember(id, m);
	id->retry_count = m->retry_count;
	id->state = CM_REQ_RECEIVED;
}

uint32_t sr_cm_on_request(struct sr_cm_id *id, uint64_t listener, const struct sr_cm_msg *m)
{
	struct sr_cm_id *l = sr_cm_find(listener);
	struct sr_cm_event *e;

	if (!l || l->state != CM_LISTEN)
		return l ? CM_REJ_CONSUMER : CM_REJ_NO_LISTENER;
	if (!l->backlog)
		return CM_REJ_CONSUMER;
	e = sr_cm_event_new(l, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (!e || sr_cm_set_device(id)) {
		free(e);
		return CM_REJ_CONSUMER;
	}
	l->backlog--;
	take_request(id, l, m);
	e->ev.id = &id->ib;
	e->ev.listen_id = &l->ib;
	if (sr_cm_is_datagram(l))
		sr_cm_event_datagram(e, m, CM_SIDR_REQ_DATA);
	else
		sr_cm_event_data(e, m, CM_REQ_DATA);
	sr_cm_event_queue(l->ib.channel, e);
	return 0;
}

/* The peer's queue pair is known. */
static void on_resolved(struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	struct sr_cm_event *e = sr_cm_event_new(id, RDMA_CM_EVENT_ESTABLISHED, 0);

	sr_timer_stop(&id->timer);
	id->remote_qpn = m->qpn;
	id->state = CM_RESOLVED;
	if (!e)
		return;
	sr_cm_event_datagram(e, m, CM_SIDR_REP_DATA);
	sr_cm_fill_address(id, &e->ev.param.ud.ah_attr);
	sr_cm_event_queue(id->ib.channel, e);
}

static void on_rep(struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	struct sr_cm_event *e;

	sr_timer_stop(&id->timer);
	remember(id, m);
	id->state = CM_REP_RECEIVED;
	e = sr_cm_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	if (!e)
		return;
	sr_cm_event_data(e, m, CM_REP_DATA);
	sr_cm_event_queue(id->ib.channel, e);
}

void sr_cm_on_message(struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	switch ((enum sr_cm_msg_type)m->type) {
	case CM_MSG_REP:
		if (id->state == CM_REQ_SENT && sr_cm_is_datagram(id))
			on_resolved(id, m);
		else if (id->state == CM_REQ_SENT)
			on_rep(id, m);
		break;
	case CM_MSG_RTU:
		if (id->state == CM_REP_SENT) {
			id->state = CM_ESTABLISHED;
			sr_cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		}
		break;
	case CM_MSG_REJ:
		if (id->state == CM_REQ_SENT || id->state == CM_REP_SENT ||
		    id->state == CM_ESTABLISHED) /* it left before it had the RTU */
			sr_cm_raise_failed(id, RDMA_CM_EVENT_REJECTED, (int)m->reason, m);
		break;
	case CM_MSG_DREQ:
		if (id->state == CM_ESTABLISHED || id->state == CM_REP_SENT) {
			id->state = CM_DREQ_RECEIVED;
			sr_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		} else if (id->state == CM_DREQ_SENT) { /* both sides disconnect at once */
			sr_cm_send(id, CM_MSG_DREP);
			sr_cm_on_disconnected(id, 0);
		}
		break;
	case CM_MSG_DREP:
		if (id->state == CM_DREQ_SENT)
			sr_cm_on_disconnected(id, 0);
		break;
	case CM_MSG_REQ:
		break; /* out of order */
	}
}

void sr_cm_on_gone(struct sr_cm_id *id)
{
	switch (id->state) {
	case CM_REQ_SENT:
	case CM_REP_SENT:
		sr_cm_raise_failed(id, RDMA_CM_EVENT_REJECTED, CM_REJ_CONSUMER, NULL);
		break;
	case CM_ESTABLISHED:
		id->state = CM_DREQ_RECEIVED;
		sr_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case CM_DREQ_SENT:
		sr_cm_on_disconnected(id, 0);
		break;
	case CM_REQ_RECEIVED: /* noticed when the application accepts */
	case CM_REP_RECEIVED:
		id->state = CM_CLOSED;
		break;
	default:
		break;
	}
}
