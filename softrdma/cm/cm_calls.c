/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/cm_calls.h"
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_conn.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_listen.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	DREQ_PATIENCE_MS = 1000, /* the limit of waiting for the peer's DREP */
};

static uint32_t random_psn(void)
{
	uint32_t psn;

	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		psn = 0;
	return psn & 0xffffff;
}

/* librdmacm's ucma_valid_param: a value beyond the device's limits is an error. */
static bool limits_ok(const struct rdma_conn_param *p)
{
	return (p->responder_resources <= DEV_MAX_RD_ATOMIC ||
		p->responder_resources == RDMA_MAX_RESP_RES) &&
	       (p->initiator_depth <= DEV_MAX_RD_ATOMIC ||
		p->initiator_depth == RDMA_MAX_INIT_DEPTH);
}

static uint8_t or_default(uint8_t asked, uint8_t all, uint8_t fallback)
{
	return asked == all ? fallback : asked;
}

static int fill_param(struct sr_cm_id *id, struct sr_cm_msg *m, const struct rdma_conn_param *p,
		      uint8_t max_data)
{
	if (p && (p->private_data_len > max_data || !limits_ok(p)))
		return -EINVAL;
	if (p && p->private_data_len) {
		memcpy(m->data, p->private_data, p->private_data_len);
		m->data_len = p->private_data_len;
	}
	m->responder_resources = id->responder_resources;
	m->initiator_depth = id->initiator_depth;
	m->flow_control = p ? p->flow_control : 1;
	m->retry_count = p ? p->retry_count & 7 : 7;
	m->rnr_retry_count = p ? p->rnr_retry_count & 7 : 7;
	m->srq = id->ib.qp ? id->ib.qp->srq != NULL : p ? p->srq : 0;
	m->qpn = id->ib.qp ? id->ib.qp->qp_num : p ? p->qp_num : 0;
	m->qkey = RDMA_UDP_QKEY;
	m->psn = id->local_psn = random_psn();
	id->local_qpn = m->qpn;
	return 0;
}

/* ---- the calls ---- */

/* Calls on a synchronous id end with the event that answers them. */
int sr_cm_wait_sync(struct sr_cm_id *id, int r)
{
	struct rdma_cm_event *e;

	if (r || !id->is_sync)
		return r;
	if (id->ib.event) {
		rdma_ack_cm_event(id->ib.event);
		id->ib.event = NULL;
	}
	r = rdma_get_cm_event(id->ib.channel, &id->ib.event);
	if (r)
		return r;
	e = id->ib.event;
	if (!e->status)
		return 0;
	if (e->event == RDMA_CM_EVENT_REJECTED)
		return sr_cm_fail(ECONNREFUSED);
	return sr_cm_fail(e->status < 0 ? -e->status : e->status);
}

static int start_connect(struct sr_cm_id *id, const struct rdma_conn_param *p)
{
	struct sr_cm_msg m = {.type = CM_MSG_REQ};
	int r;

	if (id->state != CM_ROUTE_RESOLVED)
		return -EINVAL;
	id->responder_resources = or_default(p ? p->responder_resources : RDMA_MAX_RESP_RES,
					     RDMA_MAX_RESP_RES, DEV_MAX_RD_ATOMIC);
	id->initiator_depth = or_default(p ? p->initiator_depth : RDMA_MAX_INIT_DEPTH,
					 RDMA_MAX_INIT_DEPTH, DEV_MAX_RD_ATOMIC);
	r = fill_param(id, &m, p, sr_cm_is_datagram(id) ? CM_SIDR_REQ_DATA : CM_REQ_DATA);
	if (r)
		return r;
	id->retry_count = m.retry_count;
	memcpy(&m.src, &id->ib.route.addr.src_addr,
	       sr_cm_sockaddr_len(&id->ib.route.addr.src_addr));
	memcpy(&m.dst, &id->ib.route.addr.dst_addr,
	       sr_cm_sockaddr_len(&id->ib.route.addr.dst_addr));
	id->req = malloc(sizeof(m));
	if (!id->req)
		return -ENOMEM;
	*id->req = m;
	id->state = CM_REQ_FLYING;
	id->way->request(id);
	return 0;
}

SR_API int rdma_connect(struct rdma_cm_id *ib, struct rdma_conn_param *p)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r;

	pthread_mutex_lock(&sr_cm_lock);
	r = start_connect(id, p);
	pthread_mutex_unlock(&sr_cm_lock);
	return sr_cm_wait_sync(id, r ? sr_cm_fail(-r) : 0);
}

SR_API int rdma_listen(struct rdma_cm_id *ib, int backlog)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	struct sockaddr_in any = {.sin_family = AF_INET};
	int r = 0;

	pthread_mutex_lock(&sr_cm_lock);
	if (id->state == CM_IDLE)
		r = sr_cm_bind(id, (struct sockaddr *)&any);
	pthread_mutex_unlock(&sr_cm_lock);
	if (!r)
		r = sr_cm_open_listen(id);
	pthread_mutex_lock(&sr_cm_lock);
	if (!r && id->state != CM_BOUND)
		r = -EINVAL;
	if (!r && listen(id->sock, 4096)) /* id->backlog is the limit that counts */
		r = -errno;
	if (!r)
		r = sr_cm_start_listen(id);
	if (!r) {
		id->backlog = id->max_backlog = backlog > 0 ? backlog : CM_DEFAULT_BACKLOG;
		id->state = CM_LISTEN;
		r = sr_helper_watch(id->sock, SR_WATCH_CM, id->serial);
	}
	pthread_mutex_unlock(&sr_cm_lock);
	return r ? sr_cm_fail(-r) : 0;
}

static void set_accept_limits(struct sr_cm_id *id, const struct rdma_conn_param *p)
{
	/* Defaults come from the request; both are within the device's limits. */
	if (p && p->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = p->responder_resources;
	else if (id->responder_resources > DEV_MAX_RD_ATOMIC)
		id->responder_resources = DEV_MAX_RD_ATOMIC;
	if (p && p->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = p->initiator_depth;
	else if (id->initiator_depth > DEV_MAX_RD_ATOMIC)
		id->initiator_depth = DEV_MAX_RD_ATOMIC;
}

SR_API int rdma_accept(struct rdma_cm_id *ib, struct rdma_conn_param *p)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	struct sr_cm_msg m = {.type = CM_MSG_REP};
	int r = 0;

	pthread_mutex_lock(&sr_cm_lock);
	if (id->state != CM_REQ_RECEIVED || (p && !limits_ok(p)))
		r = -EINVAL;
	if (!r) {
		set_accept_limits(id, p);
		r = fill_param(id, &m, p, sr_cm_is_datagram(id) ? CM_SIDR_REP_DATA : CM_REP_DATA);
	}
	pthread_mutex_unlock(&sr_cm_lock);
	if (!r && ib->qp && !sr_cm_is_datagram(id))
		r = sr_cm_to_rtr_rts(id);
	if (r)
		return sr_cm_fail(-r);
	pthread_mutex_lock(&sr_cm_lock);
	if (id->state != CM_REQ_RECEIVED) { /* the peer gave up in between */
		r = -EINVAL;
	} else {
		id->state = sr_cm_is_datagram(id) ? CM_RESOLVED : CM_REP_SENT;
		r = id->way->send(id, &m);
	}
	pthread_mutex_unlock(&sr_cm_lock);
	r = r ? sr_cm_fail(-r) : 0;
	return sr_cm_is_datagram(id) ? r : sr_cm_wait_sync(id, r); /* no event answers it */
}

SR_API int rdma_reject(struct rdma_cm_id *ib, const void *data, uint8_t len)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r;

	if (len > CM_REJ_DATA)
		return sr_cm_fail(EINVAL);
	pthread_mutex_lock(&sr_cm_lock);
	if (id->state != CM_REQ_RECEIVED && id->state != CM_REP_RECEIVED) {
		r = -EINVAL;
	} else {
		r = sr_cm_reject(id, CM_REJ_CONSUMER, data, len);
		id->state = CM_CLOSED;
	}
	pthread_mutex_unlock(&sr_cm_lock);
	return r ? sr_cm_fail(-r) : 0;
}

SR_API int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return rdma_reject(id, data, len);
}

SR_API int rdma_establish(struct rdma_cm_id *ib)
{
	int r = ib->qp ? -EINVAL : sr_cm_establish(sr_to_cm(ib));

	return r ? sr_cm_fail(-r) : 0;
}

static int start_disconnect(struct sr_cm_id *id)
{
	switch (id->state) {
	case CM_REP_SENT:
	case CM_ESTABLISHED:
		id->state = CM_DREQ_SENT;
		sr_cm_start_timer(id, DREQ_PATIENCE_MS);
		sr_cm_send(id, CM_MSG_DREQ);
		return 0;
	case CM_DREQ_RECEIVED:
		sr_cm_send(id, CM_MSG_DREP);
		sr_cm_enter_timewait(id);
		return 0;
	case CM_DREQ_SENT:
	case CM_CLOSED:
		return 0;
	default:
		return -EINVAL;
	}
}

SR_API int rdma_disconnect(struct rdma_cm_id *ib)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r;

	sr_cm_on_failed(id); /* before the peer is notified, as in librdmacm */
	pthread_mutex_lock(&sr_cm_lock);
	r = start_disconnect(id);
	pthread_mutex_unlock(&sr_cm_lock);
	return sr_cm_wait_sync(id, r ? sr_cm_fail(-r) : 0);
}

SR_API int rdma_notify(struct rdma_cm_id *ib, enum ibv_event_type event)
{
	struct sr_cm_id *id = sr_to_cm(ib);
	int r = -EINVAL;

	pthread_mutex_lock(&sr_cm_lock);
	if (event != IBV_EVENT_COMM_EST) {
		r = 0;
	} else if (id->state == CM_REP_SENT) { /* data arrived before the RTU */
		id->state = CM_ESTABLISHED;
		id->way->established(id);
		sr_cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		r = 0;
	} else if (id->state == CM_ESTABLISHED) {
		r = -EISCONN;
	}
	pthread_mutex_unlock(&sr_cm_lock);
	return r ? sr_cm_fail(-r) : 0;
}
