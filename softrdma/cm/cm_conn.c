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
 * The helper handles the packets that arrive; the thread that calls sends. Sockets
 * never block. All under sr_cm_lock, except that QPs are modified without it.
 */
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/trace/trace.h"

enum {
	TIMEWAIT_MS = 20,
	REQ_PATIENCE_MS = 60000, /* about the kernel's 15 retries of 4 s */
	FLIGHT_MS = 5,		 /* a REQ takes its time on a wire, and some programs */
	MAX_FLIGHTS = 10,	 /* begin to listen only just before it would arrive */
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

static void raise_failed(struct sr_cm_id *id, enum rdma_cm_event_type type, int status,
			 const struct sr_cm_msg *m)
{
	static const struct sr_cm_msg none;
	struct sr_cm_event *e = sr_cm_event_new(id, type, status);

	id->state = CM_CLOSED;
	sr_timer_stop(&id->timer);
	if (!e)
		return;
	sr_cm_event_data(e, m ? m : &none, CM_REJ_DATA);
	sr_cm_event_queue(id->ib.channel, e);
}

/* Tries to deliver the REQ; while no id listens it stays in flight, as on a wire. */
void sr_cm_fly(struct sr_cm_id *id)
{
	int r = sr_cm_find_listener(id);

	if (r == -ECONNREFUSED && ++id->flights < MAX_FLIGHTS) {
		sr_timer_start(&id->timer, FLIGHT_MS * MS, sr_cm_on_timer, id->serial);
		return;
	}
	if (r) { /* no listener, or its backlog is full */
		raise_failed(id, RDMA_CM_EVENT_REJECTED,
			     r == -ECONNREFUSED ? CM_REJ_NO_LISTENER : CM_REJ_CONSUMER, NULL);
		return;
	}
	id->state = CM_REQ_SENT;
	sr_timer_start(&id->timer, chaos_cm_timeout_ms(REQ_PATIENCE_MS) * MS, sr_cm_on_timer,
		       id->serial);
	if (sr_helper_watch(id->sock, SR_WATCH_CM, id->serial) || sr_cm_send_msg(id, id->req))
		raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
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

/* ---- disconnecting --------------------------------------------------------- */

void sr_cm_enter_timewait(struct sr_cm_id *id)
{
	id->state = CM_CLOSED;
	sr_timer_start(&id->timer, TIMEWAIT_MS * MS, sr_cm_on_timer, id->serial);
}

static void disconnected(struct sr_cm_id *id)
{
	sr_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	sr_cm_enter_timewait(id);
}

/* ---- helper: timers and packets -------------------------------------------- */

void sr_cm_on_timer(uint64_t serial)
{
	struct sr_cm_id *id;

	pthread_mutex_lock(&sr_cm_lock);
	id = sr_cm_find(serial);
	if (id && id->state == CM_REQ_FLYING)
		sr_cm_fly(id);
	else if (id && id->state == CM_REQ_SENT)
		raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
	else if (id && id->state == CM_DREQ_SENT)
		disconnected(id);
	else if (id && id->state == CM_CLOSED)
		sr_cm_raise(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	pthread_mutex_unlock(&sr_cm_lock);
}

static void on_connection(struct sr_cm_id *listener)
{
	struct sr_cm_id *child;
	uint64_t serial = listener->serial;
	int sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (sock < 0)
		return;
	pthread_mutex_unlock(&sr_cm_lock);
	child = sr_cm_new(NULL, NULL, RDMA_PS_TCP);
	pthread_mutex_lock(&sr_cm_lock);
	if (!child) {
		close(sock);
		return;
	}
	child->sock = sock;
	child->state = CM_EMBRYO;
	child->listener = serial; /* the listener may be gone: then the request finds none */
	if (sr_helper_watch(sock, SR_WATCH_CM, child->serial))
		sr_cm_free(child);
}

static int admit(struct sr_cm_id *id, const struct sr_cm_msg *m, int fds[2])
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(id->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	return sr_engine()->admit(&m->hello, fds, &cred, &id->peer);
}

static void remember(struct sr_cm_id *id, const struct sr_cm_msg *m)
{
	id->remote_qpn = m->qpn;
	id->remote_psn = m->psn;
	id->rnr_retry_count = m->rnr_retry_count;
	id->responder_resources = m->initiator_depth;
	id->initiator_depth = m->responder_resources;
}

static void drop_embryo(struct sr_cm_id *id, uint32_t reason)
{
	sr_cm_reject(id, reason, NULL, 0);
	sr_cm_free(id);
}

static void on_req(struct sr_cm_id *id, const struct sr_cm_msg *m, int fds[2])
{
	struct sr_cm_id *l = sr_cm_find(id->listener);
	struct sr_cm_event *e;
	int r = admit(id, m, fds);

	if (r || !l || l->state != CM_LISTEN || !l->backlog) {
		drop_embryo(id, r ? CM_REJ_UNREACHABLE : l ? CM_REJ_CONSUMER : CM_REJ_NO_LISTENER);
		return;
	}
	e = sr_cm_event_new(l, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (!e || sr_cm_set_device(id)) {
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
	sr_gid_from_sockaddr(&id->ib.route.addr.src_addr, &id->ib.route.addr.addr.ibaddr.sgid);
	sr_gid_from_sockaddr(&id->ib.route.addr.dst_addr, &id->ib.route.addr.addr.ibaddr.dgid);
	remember(id, m);
	id->retry_count = m->retry_count;
	id->state = CM_REQ_RECEIVED;
	e->ev.id = &id->ib;
	e->ev.listen_id = &l->ib;
	sr_cm_event_data(e, m, CM_REQ_DATA);
	sr_cm_event_queue(l->ib.channel, e);
}

static void on_rep(struct sr_cm_id *id, const struct sr_cm_msg *m, int fds[2])
{
	struct sr_cm_event *e;
	int r = admit(id, m, fds);

	sr_timer_stop(&id->timer);
	if (r) { /* the peer can reach this process, but not the reverse */
		sr_cm_reject(id, CM_REJ_UNREACHABLE, NULL, 0);
		raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, r, NULL);
		return;
	}
	remember(id, m);
	id->state = CM_REP_RECEIVED;
	e = sr_cm_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	if (!e)
		return;
	sr_cm_event_data(e, m, CM_REP_DATA);
	sr_cm_event_queue(id->ib.channel, e);
}

static void on_packet(struct sr_cm_id *id, const struct sr_cm_msg *m, int fds[2])
{
	if (m->type == CM_MSG_REQ && id->state == CM_EMBRYO) {
		on_req(id, m, fds);
		return;
	}
	if (m->type == CM_MSG_REP && id->state == CM_REQ_SENT) {
		on_rep(id, m, fds);
		return;
	}
	sr_packet_close(fds);
	switch ((enum sr_cm_msg_type)m->type) {
	case CM_MSG_RTU:
		if (id->state == CM_REP_SENT) {
			id->state = CM_ESTABLISHED;
			sr_cm_raise(id, RDMA_CM_EVENT_ESTABLISHED, 0);
		}
		break;
	case CM_MSG_REJ:
		if (id->state == CM_REQ_SENT || id->state == CM_REP_SENT)
			raise_failed(id, RDMA_CM_EVENT_REJECTED, (int)m->reason, m);
		break;
	case CM_MSG_DREQ:
		if (id->state == CM_ESTABLISHED || id->state == CM_REP_SENT) {
			id->state = CM_DREQ_RECEIVED;
			sr_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
		} else if (id->state == CM_DREQ_SENT) { /* both sides disconnect at once */
			sr_cm_send(id, CM_MSG_DREP);
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

/* The other side's socket closed: the peer destroyed its id, or its process ended. */
static void on_hangup(struct sr_cm_id *id)
{
	sr_cm_close_socket(id);
	switch (id->state) {
	case CM_EMBRYO:
		sr_cm_free(id);
		break;
	case CM_REQ_SENT:
	case CM_REP_SENT:
		raise_failed(id, RDMA_CM_EVENT_REJECTED, CM_REJ_CONSUMER, NULL);
		break;
	case CM_ESTABLISHED:
		id->state = CM_DREQ_RECEIVED;
		sr_cm_raise(id, RDMA_CM_EVENT_DISCONNECTED, 0);
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

static bool read_one(struct sr_cm_id *id)
{
	struct sr_cm_msg m;
	int fds[2];
	ssize_t n = sr_packet_recv(id->sock, &m, sizeof(m), fds);
	struct sr_peer *p = NULL;

	if (n == -EAGAIN || n == -EINTR)
		return false;
	if (n == sizeof(m) && m.data_len <= CM_MAX_DATA) {
		on_packet(id, &m, fds);
		return true;
	}
	sr_packet_close(fds);
	if (id->peer)
		p = sr_engine()->hold(id->peer);
	on_hangup(id);
	if (p) { /* an exec closes the sockets, but the pid lives on */
		sr_engine()->verify(p);
		sr_engine()->release(p);
	}
	return false;
}

static void on_socket(uint64_t serial)
{
	struct sr_cm_id *id;

	pthread_mutex_lock(&sr_cm_lock);
	id = sr_cm_find(serial);
	if (id && id->state == CM_LISTEN)
		on_connection(id);
	else
		while (id && id->sock >= 0 && read_one(id))
			id = sr_cm_find(serial);
	pthread_mutex_unlock(&sr_cm_lock);
}

static const struct sr_part part = {.on_watch[SR_WATCH_CM] = on_socket};
SR_PART(part);
