/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: the exchange of packets and the calls that drive it.
 *
 *   active                                   passive
 *   connect ---- REQ{hello, private data} --> CONNECT_REQUEST
 *   CONNECT_RESPONSE <-- REP{hello, data} --- accept (QP is in RTS already)
 *   get_cm_event: QP -> RTS; ESTABLISHED --- RTU --> ESTABLISHED
 *   DISCONNECTED <------- DREQ / DREP ------ disconnect ... DISCONNECTED
 *
 * Each side's socket hanging up stands for whatever the other side's kernel would
 * have sent for a process that dies or destroys its id. REQ and REP introduce the
 * processes to each other (peer.c); if one cannot copy, the connection is rejected.
 *
 * The packets are handled by the helper; sending is done by whoever calls. Sockets
 * never block. All under cm_lock, except that QPs are modified without it.
 */
#include "cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "chaos.h"
#include "trace.h"

enum {
	DREQ_PATIENCE_MS = 1000, /* then the peer's DREP is no longer waited for */
	TIMEWAIT_MS = 20,
	REQ_PATIENCE_MS = 60000, /* about the kernel's 15 retries of 4 s */
	FLIGHT_MS = 5,		 /* a REQ takes its time on a wire, and some programs */
	MAX_FLIGHTS = 10,	 /* begin to listen only just before it would arrive */
};

#define MS 1000000ULL

static void on_timer(uint64_t serial);

/* ---- sending --------------------------------------------------------------- */

static int send_msg(struct cm_id *id, struct cm_msg *m)
{
	int fds[2];

	if (trace_on())
		trace_cm(id, m);
	node_hello(&m->hello, fds);
	return packet_send(id->sock, m, sizeof(*m),
			   m->type == CM_MSG_REQ || m->type == CM_MSG_REP ? fds : NULL);
}

int cm_send(struct cm_id *id, enum cm_msg_type type)
{
	struct cm_msg m = {.type = type};

	return send_msg(id, &m);
}

static int send_reject(struct cm_id *id, uint32_t reason, const void *data, uint8_t len)
{
	struct cm_msg m = {.type = CM_MSG_REJ, .reason = reason, .data_len = len};

	if (len)
		memcpy(m.data, data, len);
	return send_msg(id, &m);
}

void cm_say_goodbye(struct cm_id *id)
{
	switch (id->state) {
	case CM_EMBRYO:
	case CM_REQ_RECEIVED:
	case CM_REP_RECEIVED:
		send_reject(id, CM_REJ_CONSUMER, NULL, 0);
		break;
	case CM_REP_SENT:
	case CM_ESTABLISHED:
		cm_send(id, CM_MSG_DREQ);
		break;
	case CM_DREQ_RECEIVED:
		cm_send(id, CM_MSG_DREP);
		break;
	default:
		break;
	}
	id->state = CM_CLOSED;
}

/* ---- parameters ------------------------------------------------------------ */

static uint32_t random_psn(void)
{
	uint32_t psn;

	if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn))
		psn = 0;
	return psn & 0xffffff;
}

/* librdmacm's ucma_valid_param: more than the device has is an error. */
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

static int fill_param(struct cm_id *id, struct cm_msg *m, const struct rdma_conn_param *p,
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
	m->psn = id->local_psn = random_psn();
	id->local_qpn = m->qpn;
	return 0;
}

/* ---- queue pairs ----------------------------------------------------------- */

static int modify(struct cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask, r;

	if (rdma_init_qp_attr(&id->ib, &attr, &mask))
		return -errno;
	r = ibv_modify_qp(id->ib.qp, &attr, mask);
	return -r;
}

int cm_to_rtr_rts(struct cm_id *id)
{
	int r = modify(id, IBV_QPS_INIT); /* again: access rights are known only now */

	if (!r)
		r = modify(id, IBV_QPS_RTR);
	return r ? r : modify(id, IBV_QPS_RTS);
}

static void qp_to_error(struct cm_id *id)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (id->ib.qp)
		ibv_modify_qp(id->ib.qp, &attr, IBV_QP_STATE);
}

void cm_on_failed(struct cm_id *id)
{
	qp_to_error(id);
}

/* ---- connecting ------------------------------------------------------------ */

static void raise_failed(struct cm_id *id, enum rdma_cm_event_type type, int status,
			 const struct cm_msg *m)
{
	static const struct cm_msg none;
	struct cm_event *e = cm_event_new(id, type, status);

	id->state = CM_CLOSED;
	timer_stop(&id->timer);
	if (!e)
		return;
	cm_event_data(e, m ? m : &none, CM_REJ_DATA);
	cm_event_queue(id->ib.channel, e);
}

/* Tries to deliver the REQ; if nobody listens it flies on for a while. */
static void fly(struct cm_id *id)
{
	int r = cm_find_listener(id);

	if (r == -ECONNREFUSED && ++id->flights < MAX_FLIGHTS) {
		timer_start(&id->timer, FLIGHT_MS * MS, on_timer, id->serial);
		return;
	}
	if (r) { /* nobody listens, or it has too much to do */
		raise_failed(id, RDMA_CM_EVENT_REJECTED,
			     r == -ECONNREFUSED ? CM_REJ_NO_LISTENER : CM_REJ_CONSUMER, NULL);
		return;
	}
	id->state = CM_REQ_SENT;
	timer_start(&id->timer, chaos_cm_timeout_ms(REQ_PATIENCE_MS) * MS, on_timer, id->serial);
	if (node_watch(id->sock, W_CM, id->serial) || send_msg(id, id->req))
		raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

static int start_connect(struct cm_id *id, const struct rdma_conn_param *p)
{
	struct cm_msg m = {.type = CM_MSG_REQ};
	int r;

	if (id->state != CM_ROUTE_RESOLVED)
		return -EINVAL;
	id->responder_resources = or_default(p ? p->responder_resources : RDMA_MAX_RESP_RES,
					     RDMA_MAX_RESP_RES, DEV_MAX_RD_ATOMIC);
	id->initiator_depth = or_default(p ? p->initiator_depth : RDMA_MAX_INIT_DEPTH,
					 RDMA_MAX_INIT_DEPTH, DEV_MAX_RD_ATOMIC);
	r = fill_param(id, &m, p, CM_REQ_DATA);
	if (r)
		return r;
	id->retry_count = m.retry_count;
	memcpy(&m.src, &id->ib.route.addr.src_addr, cm_sockaddr_len(&id->ib.route.addr.src_addr));
	memcpy(&m.dst, &id->ib.route.addr.dst_addr, cm_sockaddr_len(&id->ib.route.addr.dst_addr));
	id->req = malloc(sizeof(m));
	if (!id->req)
		return -ENOMEM;
	*id->req = m;
	id->state = CM_REQ_FLYING;
	fly(id);
	return 0;
}

SR_API int rdma_connect(struct rdma_cm_id *ib, struct rdma_conn_param *p)
{
	struct cm_id *id = to_cm(ib);
	int r;

	pthread_mutex_lock(&cm_lock);
	r = start_connect(id, p);
	pthread_mutex_unlock(&cm_lock);
	return cm_wait_sync(id, r ? cm_fail(-r) : 0);
}

SR_API int rdma_listen(struct rdma_cm_id *ib, int backlog)
{
	struct cm_id *id = to_cm(ib);
	struct sockaddr_in any = {.sin_family = AF_INET};
	int r = 0;

	pthread_mutex_lock(&cm_lock);
	if (id->state == CM_IDLE)
		r = cm_bind(id, (struct sockaddr *)&any);
	if (!r && id->state != CM_BOUND)
		r = -EINVAL;
	if (!r && listen(id->sock, 4096)) /* ours is the backlog that counts */
		r = -errno;
	if (!r) {
		id->backlog = backlog > 0 ? backlog : CM_DEFAULT_BACKLOG;
		id->state = CM_LISTEN;
		r = node_watch(id->sock, W_CM, id->serial);
	}
	pthread_mutex_unlock(&cm_lock);
	return r ? cm_fail(-r) : 0;
}

static void set_accept_limits(struct cm_id *id, const struct rdma_conn_param *p)
{
	/* what the request left is the default; both are within the device's limits */
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
	struct cm_id *id = to_cm(ib);
	struct cm_msg m = {.type = CM_MSG_REP};
	int r = 0;

	pthread_mutex_lock(&cm_lock);
	if (id->state != CM_REQ_RECEIVED || (p && !limits_ok(p)))
		r = -EINVAL;
	if (!r) {
		set_accept_limits(id, p);
		r = fill_param(id, &m, p, CM_REP_DATA);
	}
	pthread_mutex_unlock(&cm_lock);
	if (!r && ib->qp)
		r = cm_to_rtr_rts(id);
	if (r)
		return cm_fail(-r);
	pthread_mutex_lock(&cm_lock);
	if (id->state != CM_REQ_RECEIVED) { /* the peer gave up in between */
		r = -EINVAL;
	} else {
		id->state = CM_REP_SENT;
		r = send_msg(id, &m);
	}
	pthread_mutex_unlock(&cm_lock);
	return cm_wait_sync(id, r ? cm_fail(-r) : 0);
}

SR_API int rdma_reject(struct rdma_cm_id *ib, const void *data, uint8_t len)
{
	struct cm_id *id = to_cm(ib);
	int r;

	if (len > CM_REJ_DATA)
		return cm_fail(EINVAL);
	pthread_mutex_lock(&cm_lock);
	if (id->state != CM_REQ_RECEIVED && id->state != CM_REP_RECEIVED) {
		r = -EINVAL;
	} else {
		r = send_reject(id, CM_REJ_CONSUMER, data, len);
		id->state = CM_CLOSED;
	}
	pthread_mutex_unlock(&cm_lock);
	return r ? cm_fail(-r) : 0;
}

SR_API int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return rdma_reject(id, data, len);
}

static int establish(struct cm_id *id)
{
	int r = -EINVAL;

	pthread_mutex_lock(&cm_lock);
	if (id->state == CM_REP_RECEIVED) {
		id->state = CM_ESTABLISHED;
		r = cm_send(id, CM_MSG_RTU);
		if (r == -EPIPE || r == -ECONNRESET)
			r = 0; /* it died just now: the hang-up follows as DISCONNECTED */
	}
	pthread_mutex_unlock(&cm_lock);
	return r;
}

SR_API int rdma_establish(struct rdma_cm_id *ib)
{
	int r = ib->qp ? -EINVAL : establish(to_cm(ib));

	return r ? cm_fail(-r) : 0;
}

void cm_finish_connect(struct cm_id *id, struct cm_event *e)
{
	int r;

	if (!id->ib.qp)
		return; /* the application has its own QP and calls rdma_establish */
	r = cm_to_rtr_rts(id);
	if (!r)
		r = establish(id);
	if (!r) {
		e->ev.event = RDMA_CM_EVENT_ESTABLISHED;
		return;
	}
	e->ev.event = RDMA_CM_EVENT_CONNECT_ERROR;
	e->ev.status = r;
	rdma_reject(&id->ib, NULL, 0);
	qp_to_error(id);
}

/* ---- disconnecting --------------------------------------------------------- */

static void enter_timewait(struct cm_id *id)
{
	id->state = CM_CLOSED;
	timer_start(&id->timer, TIMEWAIT_MS * MS, on_timer, id->serial);
}

static void disconnected(struct cm_id *id)
{
	cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	enter_timewait(id);
}

static int start_disconnect(struct cm_id *id)
{
	switch (id->state) {
	case CM_REP_SENT:
	case CM_ESTABLISHED:
		id->state = CM_DREQ_SENT;
		timer_start(&id->timer, DREQ_PATIENCE_MS * MS, on_timer, id->serial);
		cm_send(id, CM_MSG_DREQ);
		return 0;
	case CM_DREQ_RECEIVED:
		cm_send(id, CM_MSG_DREP);
		enter_timewait(id);
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
	struct cm_id *id = to_cm(ib);
	int r;

	qp_to_error(id); /* before the peer hears of it, as librdmacm does */
	pthread_mutex_lock(&cm_lock);
	r = start_disconnect(id);
	pthread_mutex_unlock(&cm_lock);
	return cm_wait_sync(id, r ? cm_fail(-r) : 0);
}

SR_API int rdma_notify(struct rdma_cm_id *ib, enum ibv_event_type event)
{
	struct cm_id *id = to_cm(ib);
	int r = -EINVAL;

	pthread_mutex_lock(&cm_lock);
	if (event != IBV_EVENT_COMM_EST) {
		r = 0;
	} else if (id->state == CM_REP_SENT) { /* data arrived before the RTU */
		id->state = CM_ESTABLISHED;
		cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		r = 0;
	} else if (id->state == CM_ESTABLISHED) {
		r = -EISCONN;
	}
	pthread_mutex_unlock(&cm_lock);
	return r ? cm_fail(-r) : 0;
}

/* ---- helper: timers and packets -------------------------------------------- */

static void on_timer(uint64_t serial)
{
	struct cm_id *id;

	pthread_mutex_lock(&cm_lock);
	id = cm_find(serial);
	if (id && id->state == CM_REQ_FLYING)
		fly(id);
	else if (id && id->state == CM_REQ_SENT)
		raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
	else if (id && id->state == CM_DREQ_SENT)
		disconnected(id);
	else if (id && id->state == CM_CLOSED)
		cm_raise(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	pthread_mutex_unlock(&cm_lock);
}

static void on_connection(struct cm_id *listener)
{
	struct cm_id *child;
	uint64_t serial = listener->serial;
	int sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (sock < 0)
		return;
	pthread_mutex_unlock(&cm_lock);
	child = cm_new(NULL, NULL, RDMA_PS_TCP);
	pthread_mutex_lock(&cm_lock);
	if (!child) {
		close(sock);
		return;
	}
	child->sock = sock;
	child->state = CM_EMBRYO;
	child->listener = serial; /* it may be gone by now: then its request finds none */
	if (node_watch(sock, W_CM, child->serial))
		cm_free(child);
}

static int admit(struct cm_id *id, const struct cm_msg *m, int fds[2])
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(id->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	return peer_admit(&m->hello, fds, &cred, &id->peer);
}

static void remember(struct cm_id *id, const struct cm_msg *m)
{
	id->remote_qpn = m->qpn;
	id->remote_psn = m->psn;
	id->rnr_retry_count = m->rnr_retry_count;
	id->responder_resources = m->initiator_depth;
	id->initiator_depth = m->responder_resources;
}

static void drop_embryo(struct cm_id *id, uint32_t reason)
{
	send_reject(id, reason, NULL, 0);
	cm_free(id);
}

static void on_req(struct cm_id *id, const struct cm_msg *m, int fds[2])
{
	struct cm_id *l = cm_find(id->listener);
	struct cm_event *e;
	int r = admit(id, m, fds);

	if (r || !l || l->state != CM_LISTEN || !l->backlog) {
		drop_embryo(id, r ? CM_REJ_UNREACHABLE : l ? CM_REJ_CONSUMER : CM_REJ_NO_LISTENER);
		return;
	}
	e = cm_event_new(l, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (!e || cm_set_device(id)) {
		free(e);
		drop_embryo(id, CM_REJ_CONSUMER);
		return;
	}
	l->backlog--;
	id->ib.channel = l->ib.channel;
	id->ib.context = l->ib.context;
	id->ib.ps = l->ib.ps;
	id->ib.qp_type = l->ib.qp_type;
	memcpy(&id->ib.route.addr.src_storage, &m->dst, sizeof(m->dst));
	memcpy(&id->ib.route.addr.dst_storage, &m->src, sizeof(m->src));
	gid_from_sockaddr(&id->ib.route.addr.src_addr, &id->ib.route.addr.addr.ibaddr.sgid);
	gid_from_sockaddr(&id->ib.route.addr.dst_addr, &id->ib.route.addr.addr.ibaddr.dgid);
	remember(id, m);
	id->retry_count = m->retry_count;
	id->state = CM_REQ_RECEIVED;
	e->ev.id = &id->ib;
	e->ev.listen_id = &l->ib;
	cm_event_data(e, m, CM_REQ_DATA);
	cm_event_queue(l->ib.channel, e);
}

static void on_rep(struct cm_id *id, const struct cm_msg *m, int fds[2])
{
	struct cm_event *e;
	int r = admit(id, m, fds);

	timer_stop(&id->timer);
	if (r) { /* they can reach us, we cannot reach them */
		send_reject(id, CM_REJ_UNREACHABLE, NULL, 0);
		raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, r, NULL);
		return;
	}
	remember(id, m);
	id->state = CM_REP_RECEIVED;
	e = cm_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	if (!e)
		return;
	cm_event_data(e, m, CM_REP_DATA);
	cm_event_queue(id->ib.channel, e);
}

static void close_pair(int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void on_packet(struct cm_id *id, const struct cm_msg *m, int fds[2])
{
	if (m->type == CM_MSG_REQ && id->state == CM_EMBRYO) {
		on_req(id, m, fds);
		return;
	}
	if (m->type == CM_MSG_REP && id->state == CM_REQ_SENT) {
		on_rep(id, m, fds);
		return;
	}
	close_pair(fds);
	switch ((enum cm_msg_type)m->type) {
	case CM_MSG_RTU:
		if (id->state == CM_REP_SENT) {
			id->state = CM_ESTABLISHED;
			cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		}
		break;
	case CM_MSG_REJ:
		if (id->state == CM_REQ_SENT || id->state == CM_REP_SENT)
			raise_failed(id, RDMA_CM_EVENT_REJECTED, (int)m->reason, m);
		break;
	case CM_MSG_DREQ:
		if (id->state == CM_ESTABLISHED || id->state == CM_REP_SENT) {
			id->state = CM_DREQ_RECEIVED;
			cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		} else if (id->state == CM_DREQ_SENT) { /* both at once */
			cm_send(id, CM_MSG_DREP);
			disconnected(id);
		}
		break;
	case CM_MSG_DREP:
		if (id->state == CM_DREQ_SENT)
			disconnected(id);
		break;
	case CM_MSG_REQ:
	case CM_MSG_REP:
		break; /* out of order: a duplicate cannot happen on a socket */
	}
}

/* The other side's socket closed: its id is destroyed, or its process is. */
static void on_hangup(struct cm_id *id)
{
	cm_close_socket(id);
	switch (id->state) {
	case CM_EMBRYO:
		cm_free(id);
		break;
	case CM_REQ_SENT:
	case CM_REP_SENT:
		raise_failed(id, RDMA_CM_EVENT_REJECTED, CM_REJ_CONSUMER, NULL);
		break;
	case CM_ESTABLISHED:
		id->state = CM_DREQ_RECEIVED;
		cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case CM_DREQ_SENT:
		disconnected(id);
		break;
	case CM_REQ_RECEIVED: /* noticed when the application accepts */
	case CM_REP_RECEIVED:
		id->state = CM_CLOSED;
		break;
	default:
		break;
	}
}

static bool read_one(struct cm_id *id)
{
	struct cm_msg m;
	int fds[2];
	ssize_t n = packet_recv(id->sock, &m, sizeof(m), fds);
	struct peer *p = NULL;

	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n == sizeof(m) && m.data_len <= CM_MAX_DATA) {
		on_packet(id, &m, fds);
		return true;
	}
	close_pair(fds);
	if (id->peer)
		p = peer_ref(id->peer);
	on_hangup(id);
	if (p) { /* an exec closes the sockets, but the pid lives on */
		peer_verify(p);
		peer_unref(p);
	}
	return false;
}

void cm_on_socket(uint64_t serial)
{
	struct cm_id *id;

	pthread_mutex_lock(&cm_lock);
	id = cm_find(serial);
	if (id && id->state == CM_LISTEN)
		on_connection(id);
	else
		while (id && id->sock >= 0 && read_one(id))
			id = cm_find(serial);
	pthread_mutex_unlock(&cm_lock);
}
