/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections with other machines: the protocol of ib_cm.h between ids and queue pair 1.
 *
 * A connection is an object of its own beside the id. The id may be destroyed while its DREQ is
 * repeated or its ids rest in timewait. The helper brings MADs and runs the timers, the
 * application's threads call sr_cm_by_mads; all under sr_cm_lock.
 *
 * A request makes an id only after a listener matched and its backlog has room. A MAD counts only
 * for a connection between the two addresses that it travels between.
 */
#include "softrdma/cm/cm_mads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "softrdma/chaos/chaos.h"
#include "softrdma/cm/cm_conn.h"
#include "softrdma/cm/cm_id.h"
#include "softrdma/cm/cm_mad_conn.h"
#include "softrdma/cm/cm_mad_held.h"
#include "softrdma/cm/cm_mad_listen.h"
#include "softrdma/cm/cm_mad_message.h"
#include "softrdma/cm/cm_mad_resolve.h"
#include "softrdma/cm/cm_message.h"
#include "softrdma/cm/cm_queue.h"
#include "softrdma/cm/cm_sidr.h"
#include "softrdma/cm/sr_cm.h"

enum {
	REQ_PATIENCE_MS = 61000, /* the kernel's 15 retries of 4 s */
	MAX_CONNS = 65536,	 /* more requests than this are rejected */
	ID_TRIES = 100,
	/* A stranger gets its REP so often without asking for it; once where many strangers ask. */
	REPEATS_TO_STRANGERS = 3,
	MANY_STRANGERS = 16,
};

#define MS 1000000ULL

static struct ib_cm_table table;
static struct half_opens half_opens;

static struct sr_mad_conn *conn_of(struct ib_cm_entry *e)
{
	return (struct sr_mad_conn *)(void *)e;
}

static void path_of(const struct ib_cm_ends *ends, struct sr_gsi_path *ret)
{
	memcpy(ret->local.raw, ends->local, 16);
	memcpy(ret->remote.raw, ends->remote, 16);
}

static void ends_of(const struct sr_gsi_path *path, struct ib_cm_ends *ret)
{
	memcpy(ret->local, path->local.raw, 16);
	memcpy(ret->remote, path->remote.raw, 16);
}

/* A MAD that cannot be sent is as good as lost: the protocol repeats it. */
static void send_mad(const struct ib_cm_ends *ends, const uint8_t mad[MAD_BYTES])
{
	struct sr_gsi_path path;

	path_of(ends, &path);
	sr_gsi_send(&path, mad);
}

/* ---- connections ------------------------------------------------------------------------ */

static uint32_t new_id(const struct ib_cm_ends *ends)
{
	struct sr_gsi_path path;
	uint8_t mask, value;
	uint32_t bits, id = 0;

	path_of(ends, &path);
	if (sr_gsi_comm_id_class(&path.local, &mask, &value))
		return 0;
	for (unsigned i = 0; !id && i < ID_TRIES; i++) {
		if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
			return 0;
		id = ib_cm_table_id(&table, bits, mask, value);
	}
	return id;
}

/* Until conn_apply lists it; NULL: a shortage. Its communication id and GUID are set. */
static struct sr_mad_conn *conn_new(const struct ib_cm_ends *ends)
{
	struct sr_gsi_path path;
	struct sr_mad_conn *conn;
	uint8_t guid[8];
	uint32_t id = new_id(ends);

	path_of(ends, &path);
	if (!id || table.n >= MAX_CONNS || sr_gsi_guid(&path.local, guid))
		return NULL;
	conn = calloc(1, sizeof(*conn));
	if (!conn)
		return NULL;
	conn->entry.ends = *ends;
	ib_cm_init(&conn->entry.cm, id, guid);
	return conn;
}

static void detach(struct sr_mad_conn *conn)
{
	struct sr_cm_id *id = conn->serial ? sr_cm_find(conn->serial) : NULL;

	if (id && id->conn == conn)
		id->conn = NULL;
	conn->serial = 0;
}

static void conn_free(struct sr_mad_conn *conn)
{
	detach(conn);
	sr_timer_stop(&conn->timer);
	half_open_remove(&half_opens, &conn->half);
	ib_cm_table_remove(&table, &conn->entry);
	free(conn);
}

static void notify(struct sr_cm_id *id, const struct ib_cm *c, const struct ib_cm_result *result,
		   const struct mad *m)
{
	struct sr_cm_msg msg = {0};

	switch (result->notice) {
	case IB_CM_NOTHING:
		return;
	case IB_CM_RESPONSE:
		sr_cm_from_rep(m, &msg);
		break;
	case IB_CM_UP:
		msg.type = CM_MSG_RTU;
		break;
	case IB_CM_REFUSED:
		if (id->state == CM_REQ_RECEIVED || id->state == CM_REP_RECEIVED) {
			sr_cm_on_gone(id);
			return;
		}
		sr_cm_from_rej(m, &msg);
		break;
	case IB_CM_UNREACHABLE:
		sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, result->status, NULL);
		return;
	case IB_CM_DOWN:
		if (id->state == CM_REP_RECEIVED) {
			sr_cm_on_gone(id);
			return;
		}
		if (c->state == IB_CM_TIMEWAIT) {
			sr_cm_on_disconnected(id, result->status);
			return;
		}
		msg.type = CM_MSG_DREQ;
		break;
	case IB_CM_TIMEWAIT_OVER:
		if (id->state == CM_CLOSED)
			sr_cm_raise(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		return;
	}
	sr_cm_on_message(id, &msg);
}

static void on_timer(uint64_t local_id);

static bool is_half_open(const struct ib_cm *c)
{
	return c->state == IB_CM_REQ_RCVD || c->state == IB_CM_REP_SENT;
}

/* The peer has answered, or the attempt is over. */
static void note_proof(struct sr_mad_conn *conn)
{
	if (conn->entry.cm.state == IB_CM_ESTABLISHED)
		half_open_know(&half_opens, conn->entry.ends.remote);
	if (!is_half_open(&conn->entry.cm))
		half_open_remove(&half_opens, &conn->half);
}

static void arm(struct sr_mad_conn *conn)
{
	uint64_t now = sr_now_ns(), due = conn->entry.cm.due_ns;

	if (due)
		sr_timer_start(&conn->timer, due > now ? due - now : 0, on_timer,
			       conn->entry.cm.local_id);
	else
		sr_timer_stop(&conn->timer);
}

/* Does what the protocol has decided. m: the MAD that arrived, or NULL. It may free conn. */
static void conn_apply(struct sr_mad_conn *conn, const struct ib_cm_result *result,
		       const struct mad *m)
{
	struct sr_cm_id *id = conn->serial ? sr_cm_find(conn->serial) : NULL;
	bool is_bound = id && id->conn == conn;

	ib_cm_table_add(&table, &conn->entry);
	note_proof(conn);
	if (result->has_mad)
		send_mad(&conn->entry.ends, result->mad);
	arm(conn);
	if (is_bound)
		notify(id, &conn->entry.cm, result, m);
	if (conn->entry.cm.state == IB_CM_GONE)
		conn_free(conn);
}

static void limit_repeats(struct sr_mad_conn *conn)
{
	if (conn->half.kind == HALF_OPEN_STRANGER)
		ib_cm_limit_repeats(&conn->entry.cm,
				    half_opens.n[HALF_OPEN_STRANGER] > MANY_STRANGERS
					    ? 0
					    : REPEATS_TO_STRANGERS);
}

static void on_timer(uint64_t local_id)
{
	struct ib_cm_entry *e;
	struct ib_cm_result result;

	pthread_mutex_lock(&sr_cm_lock);
	e = ib_cm_table_by_id(&table, (uint32_t)local_id);
	if (e) {
		limit_repeats(conn_of(e));
		ib_cm_timer(&e->cm, sr_now_ns(), &result);
		conn_apply(conn_of(e), &result, NULL);
	}
	pthread_mutex_unlock(&sr_cm_lock);
}

/* ---- the calls of an id ----------------------------------------------------------------- */

static int start_request(struct sr_cm_id *id)
{
	struct ib_cm_ends ends;
	struct ib_cm_result result;
	struct mad m;

	sr_cm_ends(id, &ends);
	id->conn = conn_new(&ends);
	if (!id->conn)
		return -ENOMEM;
	id->conn->serial = id->serial;
	id->state = CM_REQ_SENT;
	sr_cm_to_req(id, id->req, &m);
	ib_cm_connect(&id->conn->entry.cm, sr_now_ns(), chaos_cm_timeout_ms(REQ_PATIENCE_MS) * MS,
		      &m, &result);
	conn_apply(id->conn, &result, NULL);
	return 0;
}

static void request(struct sr_cm_id *id)
{
	int r = start_request(id);

	if (r)
		sr_cm_raise_failed(id, RDMA_CM_EVENT_UNREACHABLE, r, NULL);
}

static int step(struct ib_cm *c, const struct sr_cm_msg *m, struct ib_cm_result *ret)
{
	uint64_t now = sr_now_ns();
	struct mad rep;

	switch ((enum sr_cm_msg_type)m->type) {
	case CM_MSG_REP:
		sr_cm_to_rep(m, &rep);
		return ib_cm_accept(c, now, &rep, ret);
	case CM_MSG_RTU:
		return ib_cm_establish(c, ret);
	case CM_MSG_REJ:
		return ib_cm_reject(c, now, (enum mad_reason)m->reason, m->data, m->data_len, ret);
	case CM_MSG_DREQ:
	case CM_MSG_DREP:
		return ib_cm_disconnect(c, now, ret);
	case CM_MSG_REQ:
		break;
	}
	return -EINVAL;
}

static int send_message(struct sr_cm_id *id, struct sr_cm_msg *m)
{
	struct ib_cm_result result;
	int r;

	if (!id->conn)
		return -EINVAL;
	r = step(&id->conn->entry.cm, m, &result);
	if (!r)
		conn_apply(id->conn, &result, NULL);
	return r;
}

static void leave(struct sr_cm_id *id)
{
	struct sr_mad_conn *conn = id->conn;
	struct ib_cm_result result;

	if (!conn)
		return;
	detach(conn);
	ib_cm_abandon(&conn->entry.cm, sr_now_ns(), &result);
	conn_apply(conn, &result, NULL);
}

static void established(struct sr_cm_id *id)
{
	struct ib_cm_result result;

	if (!id->conn)
		return;
	ib_cm_on_data(&id->conn->entry.cm, &result);
	result.notice = IB_CM_NOTHING; /* the program has brought the news */
	conn_apply(id->conn, &result, NULL);
}

const struct sr_cm_way sr_cm_by_mads = {
	.request = request,
	.send = send_message,
	.established = established,
	.leave = leave,
	.keeps_time = true,
	.ack_timeout = 17, /* 0.54 s, as Linux 6.12 */
};

/* ---- what arrives ----------------------------------------------------------------------- */

static void refuse(const struct ib_cm_ends *ends, const struct mad *req, uint32_t reason)
{
	uint8_t bytes[MAD_BYTES];

	ib_cm_refuse(req, (enum mad_reason)reason, bytes);
	send_mad(ends, bytes);
}

/* A request for the queue pair of an old connection proves nothing: any machine can send it. */
static void doubt(struct ib_cm_entry *old)
{
	struct ib_cm_result result;

	ib_cm_doubt(&old->cm, sr_now_ns(), &result);
	conn_apply(conn_of(old), &result, NULL);
}

/* The peer's queue pair has a new connection, says the peer's answer: the old one is over. */
static void end_stale(struct ib_cm_entry *old)
{
	struct ib_cm_result result;

	if (!ib_cm_disconnect(&old->cm, sr_now_ns(), &result))
		conn_apply(conn_of(old), &result, NULL);
}

static void bind_child(struct sr_cm_id *child, struct sr_mad_conn *conn, const struct mad *m)
{
	child->conn = conn;
	conn->serial = child->serial;
	child->ack_timeout = sr_cm_bound_ack_timeout(m->req.primary.ack_timeout);
	child->path_mtu = (enum ibv_mtu)m->req.path_mtu;
}

/* The one that has to go, if any, loses its id as if its peer had left. */
static void make_room(struct half_open *oldest)
{
	struct sr_mad_conn *conn = oldest ? container_of(oldest, struct sr_mad_conn, half) : NULL;
	struct sr_cm_id *id = conn && conn->serial ? sr_cm_find(conn->serial) : NULL;
	struct ib_cm_result result;

	if (!conn)
		return;
	detach(conn);
	if (id)
		sr_cm_on_gone(id);
	ib_cm_drop(&conn->entry.cm, sr_now_ns(), &result);
	conn_apply(conn, &result, NULL);
}

/* A part of the places at the listener is for known addresses. */
static bool may_wait(uint64_t listener, const uint8_t gid[16])
{
	const struct sr_cm_id *l = sr_cm_find(listener);

	return !l || l->backlog >= l->max_backlog / 4 || half_open_is_known(&half_opens, gid);
}

/* Under sr_cm_lock, which it leaves for a moment. */
static uint32_t take_request(uint64_t listener, const struct ib_cm_ends *ends, const struct mad *m)
{
	struct ib_cm_result none = {0};
	struct sr_mad_conn *conn;
	struct sr_cm_id *child;
	struct sr_cm_msg msg;
	uint8_t guid[8];
	uint32_t reason = sr_cm_from_req(m, ends, &msg);

	if (reason)
		return reason;
	if (m->req.path_mtu > sr_cm_path_mtu(ends)) /* both sides cut messages alike */
		return MAD_REASON_MTU;
	if (!may_wait(listener, ends->remote) ||
	    !half_open_may_come(&half_opens, ends->remote, m->local_id, sr_now_ns()))
		return 0; /* its sender repeats it */
	pthread_mutex_unlock(&sr_cm_lock);
	child = sr_cm_new(NULL, NULL, RDMA_PS_TCP, &sr_cm_by_mads);
	pthread_mutex_lock(&sr_cm_lock);
	conn = child ? conn_new(ends) : NULL;
	reason = conn ? sr_cm_on_request(child, listener, &msg) : MAD_REASON_NO_RESOURCES;
	if (reason) {
		if (child)
			sr_cm_free(child);
		free(conn);
		return reason;
	}
	memcpy(guid, conn->entry.cm.guid, sizeof(guid));
	ib_cm_init_passive(&conn->entry.cm, conn->entry.cm.local_id, guid, m);
	bind_child(child, conn, m);
	make_room(half_open_add(&half_opens, &conn->half, ends->remote));
	conn_apply(conn, &none, m);
	return 0;
}

/* The next copy of the request goes to the process that has begun to listen meanwhile. */
static bool others_listen(const struct ib_cm_ends *ends, const struct mad *m)
{
	struct sr_gsi_path path;

	path_of(ends, &path);
	return MAD_RDMA_PS(m->req.service_id) == RDMA_PS_TCP && !(m->req.service_id >> 32) &&
	       sr_gsi_others_listen(&path.local, RDMA_PS_TCP, MAD_PORT(m->req.service_id));
}

static bool serve(const struct ib_cm_ends *ends, const struct mad *m, bool is_last)
{
	struct ib_cm_entry *old;
	uint64_t listener = 0;
	uint32_t reason;

	if (MAD_RDMA_PS(m->req.service_id) == RDMA_PS_TCP && !(m->req.service_id >> 32))
		listener = sr_cm_find_mad_listener(ends->local, RDMA_PS_TCP,
						   MAD_PORT(m->req.service_id));
	if (!listener && !is_last)
		return false;
	if (!listener && others_listen(ends, m))
		return true;
	old = listener ? ib_cm_table_stale(&table, ends, m, NULL) : NULL;
	if (old)
		doubt(old);
	if (!listener)
		reason = MAD_REASON_NO_SERVICE;
	else
		reason = old ? MAD_REASON_STALE : take_request(listener, ends, m);
	if (reason)
		refuse(ends, m, reason);
	return true;
}

static void on_request(const struct ib_cm_ends *ends, const struct mad *m)
{
	if (!serve(ends, m, false) && !sr_cm_hold_request(ends, m, serve))
		serve(ends, m, true);
}

/* A REP that names a queue pair with another connection, or none at all, is no answer. */
static bool is_bad_rep(const struct ib_cm_ends *ends, const struct mad *m,
		       const struct ib_cm_entry *e)
{
	struct ib_cm_entry *old = ib_cm_table_stale(&table, ends, m, e);

	if (old)
		end_stale(old);
	return old || m->rep.qpn < 2;
}

static void refuse_rep(struct ib_cm_entry *e, struct ib_cm_result *result, struct mad *m)
{
	ib_cm_reject(&e->cm, sr_now_ns(), MAD_REASON_STALE, NULL, 0, result);
	*m = (struct mad){.type = MAD_REJ, .rej.reason = MAD_REASON_STALE};
	result->notice = IB_CM_REFUSED;
	result->status = MAD_REASON_STALE;
}

static void on_known(struct ib_cm_entry *e, const struct ib_cm_ends *ends, struct mad *m)
{
	struct ib_cm_result result;

	ib_cm_on_mad(&e->cm, sr_now_ns(), m, &result);
	if (result.notice == IB_CM_RESPONSE && is_bad_rep(ends, m, e))
		refuse_rep(e, &result, m);
	conn_apply(conn_of(e), &result, m);
}

static void on_mad(const struct sr_gsi_path *path, const uint8_t bytes[SR_GSI_MAD_BYTES])
{
	uint8_t answer[MAD_BYTES];
	struct ib_cm_ends ends;
	struct ib_cm_entry *e;
	struct mad m;

	if (mad_decode(bytes, &m))
		return;
	ends_of(path, &ends);
	pthread_mutex_lock(&sr_cm_lock);
	e = ib_cm_table_find(&table, &ends, &m);
	if (m.type == MAD_SIDR_REQ || m.type == MAD_SIDR_REP)
		sr_cm_on_sidr(&ends, &m);
	else if (e)
		on_known(e, &ends, &m);
	else if (m.type == MAD_REQ)
		on_request(&ends, &m);
	else if (ib_cm_answer_stray(&m, answer))
		send_mad(&ends, answer);
	pthread_mutex_unlock(&sr_cm_lock);
}

static void on_unreachable(const struct sr_gsi_path *path)
{
	struct ib_cm_ends ends;

	ends_of(path, &ends);
	pthread_mutex_lock(&sr_cm_lock);
	for (unsigned i = 0; i < IB_CM_N_BUCKETS; i++) {
		struct ib_cm_entry *e = table.heads[IB_CM_BY_LOCAL_ID][i];

		for (; e; e = e->chains[IB_CM_BY_LOCAL_ID].next)
			if (!memcmp(&e->ends, &ends, sizeof(ends)))
				ib_cm_on_unreachable(&e->cm);
	}
	sr_cm_sidr_unreachable(&ends);
	pthread_mutex_unlock(&sr_cm_lock);
}

static void start(void)
{
	sr_gsi_receive(on_mad);
	sr_gsi_watch_unreachable(on_unreachable);
}

/* A forked child has no connections: their ids, sockets and timers are the parent's. */
static void forget(void)
{
	memset(&table, 0, sizeof(table));
	memset(&half_opens, 0, sizeof(half_opens));
}

static const struct sr_part part = {.start = start, .forget = forget};
SR_PART(part);
