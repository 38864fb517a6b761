/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/cm/cm_addr.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/sr_cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/cm/cm_conn.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_socket.h"
#include "softrdma/cm/cm_trace.h"
#include "softrdma/fabric/callers.h"
#include "softrdma/trace/trace.h"

enum {
	REQ_PATIENCE_MS = 60000, /* about the kernel's 15 retries of 4 s */
	FLIGHT_MS = 5,		 /* a REQ takes its time on a wire, and some programs */
	MAX_FLIGHTS = 10,	 /* begin to listen only just before it would arrive */
};

/* ---- sending ------------------------------------------------------------------------ */

/* Sockets never block. */
static int send_packet(struct sr_cm_id *id, struct sr_cm_msg *m)
{
	int fds[2];

	if (trace_on())
		sr_cm_trace(id, m);
	sr_engine()->introduce(&m->hello, fds);
	return sr_packet_send(id->sock, m, sizeof(*m),
			      m->type == CM_MSG_REQ || m->type == CM_MSG_REP ? fds : NULL);
}

/* Tries to deliver the REQ; while no id listens it stays in flight, as on a wire. */
static void fly(struct sr_cm_id *id)
{
	int r = sr_cm_find_listener(id);

	if (r == -ECONNREFUSED && ++id->flights < MAX_FLIGHTS) {
		sr_cm_start_timer(id, FLIGHT_MS);
		return;
	}
	if (r) { /* no listener, or its backlog is full */
		sr_cm_raise_failed(id, RDMA_CM_EVENT_REJECTED,
				   r == -ECONNREFUSED ? CM_REJ_NO_LISTENER : CM_REJ_CONSUMER, NULL);
		return;
	}
	id->state = CM_REQ_SENT;
	sr_cm_start_timer(id, chaos_cm_timeout_ms(REQ_PATIENCE_MS));
	if (sr_helper_watch(id->sock, SR_WATCH_CM, id->serial) || send_packet(id, id->req))
		sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
}

static void leave(struct sr_cm_id *id)
{
	switch (id->state) {
	case CM_EMBRYO:
	case CM_REQ_RECEIVED:
	case CM_REP_RECEIVED:
		sr_cm_reject(id, CM_REJ_CONSUMER, NULL, 0);
		break;
	case CM_REP_SENT:
	case CM_ESTABLISHED:
		sr_cm_send(id, CM_MSG_DREQ);
		break;
	case CM_DREQ_RECEIVED:
		sr_cm_send(id, CM_MSG_DREP);
		break;
	default:
		break;
	}
}

static void established(struct sr_cm_id *id)
{
}

const struct sr_cm_way sr_cm_by_socket = {
	.request = fly,
	.send = send_packet,
	.established = established,
	.leave = leave,
	.ack_timeout = 14, /* 67 ms */
};

/* ---- helper: what arrives ----------------------------------------------------------- */

/* One of another user: refused in any case, and few may be silent at a time. */
static void limit_strangers(const struct sr_cm_id *embryo)
{
	static struct sr_strangers strangers;
	uint64_t serial = sr_strangers_add(&strangers, embryo->serial);
	struct sr_cm_id *first = serial ? sr_cm_find(serial) : NULL;

	if (first && first->state == CM_EMBRYO)
		sr_cm_free(first);
}

static void on_connection(struct sr_cm_id *listener)
{
	struct sr_cm_id *child;
	uint64_t serial = listener->serial;
	int sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (sock < 0)
		return;
	pthread_mutex_unlock(&sr_cm_lock);
	child = sr_cm_new(NULL, NULL, RDMA_PS_TCP, &sr_cm_by_socket);
	pthread_mutex_lock(&sr_cm_lock);
	if (!child) {
		close(sock);
		return;
	}
	child->sock = sock;
	child->state = CM_EMBRYO;
	child->listener = serial; /* the listener may be gone: then the request finds none */
	sr_cm_start_timer(child, chaos_cm_timeout_ms(SR_SILENCE_MS));
	if (sr_is_stranger(sock))
		limit_strangers(child);
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

static void drop_embryo(struct sr_cm_id *id, uint32_t reason)
{
	sr_cm_reject(id, reason, NULL, 0);
	sr_cm_free(id);
}

static void on_req(struct sr_cm_id *id, const struct sr_cm_msg *m, int fds[2])
{
	uint32_t reason = CM_REJ_UNREACHABLE;

	sr_timer_stop(&id->timer);
	if (!admit(id, m, fds))
		reason = sr_cm_on_request(id, id->listener, m);
	if (reason)
		drop_embryo(id, reason);
}

static void on_rep(struct sr_cm_id *id, const struct sr_cm_msg *m, int fds[2])
{
	int r = admit(id, m, fds);

	if (!r) {
		sr_cm_on_message(id, m);
		return;
	}
	/* the peer can reach this process, but not the reverse */
	sr_cm_reject(id, CM_REJ_UNREACHABLE, NULL, 0);
	sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, r, NULL);
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
	sr_cm_on_message(id, m);
}

/* The other side's socket closed: the peer destroyed its id, or its process ended. */
static void on_hangup(struct sr_cm_id *id)
{
	sr_cm_close_socket(id);
	if (id->state == CM_EMBRYO)
		sr_cm_free(id);
	else
		sr_cm_on_gone(id);
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
