/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of one connection: ib_cm.h.
 *
 *            active                                   passive
 *     IDLE --connect--> REQ_SENT  ---- REQ ---->  REQ_RCVD
 *                          |      <--- MRA -----     |       asked again before it has decided
 *                       REP_RCVD  <--- REP ------ REP_SENT
 *     establish            |                         |
 *                     ESTABLISHED ---- RTU ----> ESTABLISHED    data on the queue pair, too
 *     doubt                |      <--- REP ------ DOUBTED        repeated
 *                          |      ---- RTU ----> ESTABLISHED
 *     disconnect           |                         |
 *                      DREQ_SENT  ---- DREQ ---> DREQ_RCVD
 *                      TIMEWAIT   <--- DREP ---- TIMEWAIT  (disconnect)
 *
 * A side that waits for an answer repeats its message: first after 0.2 s, then after twice as long
 * each time, until the peer's own limits are used up. A REP, an RTU, a DREP and a REJ that were
 * lost are sent again when the message that they answer comes again. Two DREQs that cross are each
 * answered with a DREP.
 */
#include "softrdma/cm/ib_cm.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL

enum {
	FIRST_REPEAT_MS = 200,
	MAX_REPEAT_MS = 4300,	/* about 4.096 us * 2^20, the kernel's constant interval */
	MIN_PATIENCE_MS = 1000, /* a peer's limits count between these two */
	MAX_PATIENCE_MS = 61000,
	DREQ_PATIENCE_MS = 2000,
	DOUBT_PATIENCE_MS = 10000,
	TIMEWAIT_MS = 537,    /* 4.096 us * 2^(packet lifetime 16 + 1), as Linux 6.12 */
	SERVICE_TIMEOUT = 24, /* what an MRA asks for: 69 s, as the kernel */
	MAX_SERVICE_TIMEOUT = 25,
};

/* ---- states ------------------------------------------------------------------------- */

#define TO(s) (1u << IB_CM_##s)

static const struct {
	const char *name;
	unsigned may_go_to;
} rules[IB_CM_N_STATES] = {
	[IB_CM_IDLE] = {"idle", TO(REQ_SENT) | TO(REQ_RCVD) | TO(GONE)},
	[IB_CM_REQ_SENT] = {"req-sent", TO(REP_RCVD) | TO(REJECTED) | TO(TIMEWAIT) | TO(GONE)},
	[IB_CM_REQ_RCVD] = {"req-received", TO(REP_SENT) | TO(REJECTED) | TO(TIMEWAIT) | TO(GONE)},
	[IB_CM_REP_SENT] = {"rep-sent", TO(ESTABLISHED) | TO(DREQ_SENT) | TO(DREQ_RCVD) |
						TO(REJECTED) | TO(TIMEWAIT) | TO(GONE)},
	[IB_CM_REP_RCVD] = {"rep-received", TO(ESTABLISHED) | TO(REJECTED) | TO(TIMEWAIT)},
	[IB_CM_ESTABLISHED] = {"established",
			       TO(DOUBTED) | TO(DREQ_SENT) | TO(DREQ_RCVD) | TO(TIMEWAIT)},
	[IB_CM_DOUBTED] = {"doubted",
			   TO(ESTABLISHED) | TO(DREQ_SENT) | TO(DREQ_RCVD) | TO(TIMEWAIT)},
	[IB_CM_DREQ_SENT] = {"dreq-sent", TO(TIMEWAIT)},
	[IB_CM_DREQ_RCVD] = {"dreq-received", TO(TIMEWAIT)},
	[IB_CM_TIMEWAIT] = {"timewait", TO(GONE)},
	[IB_CM_REJECTED] = {"rejected", TO(GONE)},
	[IB_CM_GONE] = {"gone", 0},
};

const char *ib_cm_state_name(unsigned state)
{
	return state < IB_CM_N_STATES ? rules[state].name : "?";
}

bool ib_cm_may_move(unsigned from, unsigned to)
{
	return from < IB_CM_N_STATES && to < IB_CM_N_STATES && rules[from].may_go_to & 1u << to;
}

/* A move that the table forbids is a mistake of this file: no MAD chooses a move, the tables do. */
static void move(struct ib_cm *c, unsigned next)
{
	if (!ib_cm_may_move(c->state, next))
		abort();
	c->state = next;
	c->due_ns = 0;
}

static void linger(struct ib_cm *c, unsigned next, uint64_t now_ns)
{
	move(c, next);
	c->due_ns = now_ns + TIMEWAIT_MS * MS;
}

/* ---- sending ------------------------------------------------------------------------ */

static uint64_t clamp(uint64_t v, uint64_t low, uint64_t high)
{
	return v < low ? low : v > high ? high : v;
}

static struct mad new_mad(const struct ib_cm *c, enum mad_type type)
{
	return (struct mad){
		.type = type, .tid = c->tid, .local_id = c->local_id, .remote_id = c->remote_id};
}

static void send_last(struct ib_cm *c, struct ib_cm_result *ret)
{
	memcpy(ret->mad, c->last, MAD_BYTES);
	ret->has_mad = true;
}

/* Sends m; a duplicate, or a timer, sends it again. */
static void send_mad(struct ib_cm *c, const struct mad *m, struct ib_cm_result *ret)
{
	mad_encode(m, c->last);
	send_last(c, ret);
}

static void expect_answer(struct ib_cm *c, uint64_t now_ns, uint64_t patience_ns)
{
	c->interval_ns = FIRST_REPEAT_MS * MS;
	c->give_up_ns = now_ns + patience_ns;
	c->due_ns = now_ns + (patience_ns < c->interval_ns ? patience_ns : c->interval_ns);
}

static void send_rej(struct ib_cm *c, enum mad_reason reason, enum mad_answered answered,
		     const void *data, unsigned len, struct ib_cm_result *ret)
{
	struct mad m = new_mad(c, MAD_REJ);

	m.rej.answered = (uint8_t)answered;
	m.rej.reason = (uint16_t)reason;
	if (reason == MAD_REASON_TIMEOUT) { /* the peer may not know this side's id */
		m.rej.ari_len = sizeof(c->guid);
		memcpy(m.rej.ari, c->guid, sizeof(c->guid));
	}
	if (len)
		memcpy(m.data, data, len);
	send_mad(c, &m, ret);
}

/* An MRA is not kept: what it defers is repeated when there is something to say. */
static void send_mra(const struct ib_cm *c, enum mad_answered answered, struct ib_cm_result *ret)
{
	struct mad m = new_mad(c, MAD_MRA);

	m.mra.answered = (uint8_t)answered;
	m.mra.service_timeout = SERVICE_TIMEOUT;
	mad_encode(&m, ret->mad);
	ret->has_mad = true;
}

static void send_drep(struct ib_cm *c, struct ib_cm_result *ret)
{
	struct mad m = new_mad(c, MAD_DREP);

	send_mad(c, &m, ret);
}

static void send_dreq(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret)
{
	struct mad m = new_mad(c, MAD_DREQ);

	m.dreq.remote_qpn = c->remote_qpn;
	move(c, IB_CM_DREQ_SENT);
	expect_answer(c, now_ns, DREQ_PATIENCE_MS * MS);
	send_mad(c, &m, ret);
}

static void notify(struct ib_cm_result *ret, enum ib_cm_notice notice, int status)
{
	ret->notice = notice;
	ret->status = status;
}

/* ---- calls -------------------------------------------------------------------------- */

void ib_cm_init(struct ib_cm *c, uint32_t local_id, const uint8_t guid[8])
{
	*c = (struct ib_cm){.local_id = local_id, .tid = local_id};
	memcpy(c->guid, guid, sizeof(c->guid));
}

void ib_cm_init_passive(struct ib_cm *c, uint32_t local_id, const uint8_t guid[8],
			const struct mad *req)
{
	uint64_t each = mad_time_ns(req->req.local_timeout);

	ib_cm_init(c, local_id, guid);
	c->side = IB_CM_PASSIVE;
	c->tid = req->tid;
	c->remote_id = req->local_id;
	c->remote_qpn = req->req.qpn;
	c->max_repeats = UINT_MAX;
	memcpy(c->remote_guid, req->req.guid, sizeof(c->remote_guid));
	c->patience_ns = clamp(each * (req->req.max_retries + 1u), MIN_PATIENCE_MS * MS,
			       MAX_PATIENCE_MS * MS);
	move(c, IB_CM_REQ_RCVD);
}

int ib_cm_connect(struct ib_cm *c, uint64_t now_ns, uint64_t patience_ns, struct mad *m,
		  struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	if (c->state != IB_CM_IDLE)
		return -EINVAL;
	m->type = MAD_REQ;
	m->tid = c->tid;
	m->local_id = c->local_id;
	memcpy(m->req.guid, c->guid, sizeof(c->guid));
	c->local_qpn = m->req.qpn;
	move(c, IB_CM_REQ_SENT);
	expect_answer(c, now_ns, patience_ns);
	send_mad(c, m, ret);
	return 0;
}

int ib_cm_accept(struct ib_cm *c, uint64_t now_ns, struct mad *m, struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	if (c->state != IB_CM_REQ_RCVD)
		return -EINVAL;
	m->type = MAD_REP;
	m->tid = c->tid;
	m->local_id = c->local_id;
	m->remote_id = c->remote_id;
	memcpy(m->rep.guid, c->guid, sizeof(c->guid));
	c->local_qpn = m->rep.qpn;
	move(c, IB_CM_REP_SENT);
	expect_answer(c, now_ns, c->patience_ns);
	send_mad(c, m, ret);
	return 0;
}

int ib_cm_establish(struct ib_cm *c, struct ib_cm_result *ret)
{
	struct mad m = new_mad(c, MAD_RTU);

	*ret = (struct ib_cm_result){0};
	if (c->state != IB_CM_REP_RCVD)
		return -EINVAL;
	move(c, IB_CM_ESTABLISHED);
	send_mad(c, &m, ret);
	return 0;
}

int ib_cm_reject(struct ib_cm *c, uint64_t now_ns, enum mad_reason reason, const void *data,
		 unsigned len, struct ib_cm_result *ret)
{
	enum mad_answered answered = c->state == IB_CM_REQ_RCVD ? MAD_ANSWERS_REQ : MAD_ANSWERS_REP;

	*ret = (struct ib_cm_result){0};
	if ((c->state != IB_CM_REQ_RCVD && c->state != IB_CM_REP_RCVD) ||
	    len > mad_data_bytes(MAD_REJ))
		return -EINVAL;
	linger(c, IB_CM_REJECTED, now_ns);
	send_rej(c, reason, answered, data, len, ret);
	return 0;
}

int ib_cm_disconnect(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	switch (c->state) {
	case IB_CM_REP_SENT:
	case IB_CM_ESTABLISHED:
	case IB_CM_DOUBTED:
		send_dreq(c, now_ns, ret);
		return 0;
	case IB_CM_DREQ_RCVD:
		linger(c, IB_CM_TIMEWAIT, now_ns);
		send_drep(c, ret);
		return 0;
	case IB_CM_DREQ_SENT:
	case IB_CM_TIMEWAIT:
		return 0;
	default:
		return -EINVAL;
	}
}

void ib_cm_abandon(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	switch (c->state) {
	case IB_CM_IDLE:
		move(c, IB_CM_GONE);
		break;
	case IB_CM_REQ_SENT:
		linger(c, IB_CM_REJECTED, now_ns);
		send_rej(c, MAD_REASON_TIMEOUT, MAD_ANSWERS_OTHER, NULL, 0, ret);
		break;
	case IB_CM_REQ_RCVD:
	case IB_CM_REP_RCVD:
		ib_cm_reject(c, now_ns, MAD_REASON_CONSUMER, NULL, 0, ret);
		break;
	case IB_CM_REP_SENT: /* the peer, with the RTU on its way or not, heeds a REJ */
		linger(c, IB_CM_REJECTED, now_ns);
		send_rej(c, MAD_REASON_CONSUMER, MAD_ANSWERS_OTHER, NULL, 0, ret);
		break;
	default:
		ib_cm_disconnect(c, now_ns, ret);
		break;
	}
}

void ib_cm_drop(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	if (c->state == IB_CM_REQ_RCVD)
		move(c, IB_CM_GONE);
	else
		ib_cm_abandon(c, now_ns, ret);
}

void ib_cm_limit_repeats(struct ib_cm *c, unsigned max)
{
	c->max_repeats = max;
}

void ib_cm_doubt(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	if (c->side == IB_CM_ACTIVE)
		return;
	if (c->state == IB_CM_ESTABLISHED) {
		move(c, IB_CM_DOUBTED);
		expect_answer(c, now_ns, DOUBT_PATIENCE_MS * MS);
		send_last(c, ret);
	} else if (c->state == IB_CM_REP_SENT) { /* in doubt anyway */
		send_last(c, ret);
	}
}

void ib_cm_on_data(struct ib_cm *c, struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	if (c->state != IB_CM_REP_SENT)
		return;
	move(c, IB_CM_ESTABLISHED);
	notify(ret, IB_CM_UP, 0);
}

/* ---- what MADs do ------------------------------------------------------------------- */

typedef void on_mad(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
		    struct ib_cm_result *ret);

static void repeat(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret)
{
	send_last(c, ret);
}

/* A REP twice: the RTU was lost, if this is the side that sent one. */
static void repeat_rtu(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
		       struct ib_cm_result *ret)
{
	if (c->side == IB_CM_ACTIVE)
		send_last(c, ret);
}

static void ask_for_patience(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
			     struct ib_cm_result *ret)
{
	send_mra(c, m->type == MAD_REQ ? MAD_ANSWERS_REQ : MAD_ANSWERS_REP, ret);
}

/* The peer needs so long: nothing is repeated meanwhile, and the limit moves. */
static void be_patient(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
		       struct ib_cm_result *ret)
{
	enum mad_answered mine = c->state == IB_CM_REQ_SENT ? MAD_ANSWERS_REQ : MAD_ANSWERS_REP;
	unsigned exponent = m->mra.service_timeout;

	if (m->mra.answered != mine)
		return;
	c->refusals = (struct refusals){0}; /* the peer is there */
	if (exponent > MAX_SERVICE_TIMEOUT)
		exponent = MAX_SERVICE_TIMEOUT;
	c->interval_ns = MAX_REPEAT_MS * MS;
	c->due_ns = now_ns + clamp(mad_time_ns(exponent), FIRST_REPEAT_MS * MS, UINT64_MAX);
	if (c->give_up_ns < c->due_ns + MAX_PATIENCE_MS * MS)
		c->give_up_ns = c->due_ns + MAX_PATIENCE_MS * MS;
}

static void on_rep(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret)
{
	c->remote_id = m->local_id;
	c->remote_qpn = m->rep.qpn;
	memcpy(c->remote_guid, m->rep.guid, sizeof(c->remote_guid));
	move(c, IB_CM_REP_RCVD);
	notify(ret, IB_CM_RESPONSE, 0);
}

static void on_rtu(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret)
{
	ib_cm_on_data(c, ret);
}

static void on_known(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
		     struct ib_cm_result *ret)
{
	move(c, IB_CM_ESTABLISHED);
}

/* The peer holds on to an old connection's ids when it says "stale": they rest here too. */
static void on_rej(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret)
{
	bool was_answered = c->state == IB_CM_REP_RCVD || c->state == IB_CM_ESTABLISHED;

	notify(ret, IB_CM_REFUSED, m->rej.reason);
	if (was_answered || m->rej.reason == MAD_REASON_STALE)
		linger(c, IB_CM_TIMEWAIT, now_ns);
	else
		move(c, IB_CM_GONE);
}

static bool is_to_this_qp(const struct ib_cm *c, const struct mad *dreq)
{
	return dreq->dreq.remote_qpn == c->local_qpn;
}

static void on_dreq(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret)
{
	if (!is_to_this_qp(c, m))
		return;
	move(c, IB_CM_DREQ_RCVD);
	notify(ret, IB_CM_DOWN, 0);
}

/* Both sides have sent one, or the peer gave up before this side has decided. */
static void on_last_dreq(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
			 struct ib_cm_result *ret)
{
	if (!is_to_this_qp(c, m))
		return;
	linger(c, IB_CM_TIMEWAIT, now_ns);
	send_drep(c, ret);
	notify(ret, IB_CM_DOWN, 0);
}

static void on_drep(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret)
{
	linger(c, IB_CM_TIMEWAIT, now_ns);
	notify(ret, IB_CM_DOWN, 0);
}

static void on_late_dreq(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
			 struct ib_cm_result *ret)
{
	send_drep(c, ret);
}

static void on_late_req(struct ib_cm *c, uint64_t now_ns, const struct mad *m,
			struct ib_cm_result *ret)
{
	ib_cm_refuse(m, MAD_REASON_STALE, ret->mad);
	ret->has_mad = true;
}

/* Entries that are not there: the MAD comes late, twice, or from a peer that is wrong. */
static on_mad *const handlers[IB_CM_N_STATES][MAD_DREP - MAD_FIRST + 1] = {
#define ON(type) [MAD_##type - MAD_FIRST]
	[IB_CM_REQ_SENT] = {ON(MRA) = be_patient, ON(REP) = on_rep, ON(REJ) = on_rej},
	[IB_CM_REQ_RCVD] = {ON(REQ) = ask_for_patience, ON(REJ) = on_rej},
	[IB_CM_REP_SENT] = {ON(REQ) = repeat, ON(MRA) = be_patient, ON(RTU) = on_rtu,
			    ON(REJ) = on_rej, ON(DREQ) = on_dreq},
	[IB_CM_REP_RCVD] = {ON(REP) = ask_for_patience, ON(REJ) = on_rej, ON(DREQ) = on_last_dreq},
	[IB_CM_ESTABLISHED] = {ON(REP) = repeat_rtu, ON(REJ) = on_rej, ON(DREQ) = on_dreq},
	[IB_CM_DOUBTED] = {ON(RTU) = on_known, ON(REJ) = on_drep, ON(DREQ) = on_dreq},
	[IB_CM_DREQ_SENT] = {ON(DREP) = on_drep, ON(DREQ) = on_last_dreq, ON(REJ) = on_drep},
	[IB_CM_TIMEWAIT] = {ON(REQ) = on_late_req, ON(DREQ) = on_late_dreq},
	[IB_CM_REJECTED] = {ON(REQ) = repeat, ON(REP) = repeat, ON(RTU) = repeat,
			    ON(DREQ) = on_late_dreq},
#undef ON
};

/* Once both ids are known, a MAD with another one is not of this connection. */
static bool is_mine(const struct ib_cm *c, const struct mad *m)
{
	if (m->type == MAD_REQ)
		return m->local_id == c->remote_id;
	if (m->type == MAD_REJ)
		return !c->remote_id || !m->local_id || m->local_id == c->remote_id;
	if (!c->remote_id && (m->type == MAD_REP || m->type == MAD_MRA))
		return true;
	return m->local_id == c->remote_id;
}

void ib_cm_on_mad(struct ib_cm *c, uint64_t now_ns, const struct mad *m, struct ib_cm_result *ret)
{
	on_mad *handler;

	*ret = (struct ib_cm_result){0};
	if (m->type > MAD_DREP || !is_mine(c, m))
		return;
	handler = handlers[c->state][m->type - MAD_FIRST];
	if (handler)
		handler(c, now_ns, m, ret);
}

/* ---- time --------------------------------------------------------------------------- */

static void give_up(struct ib_cm *c, uint64_t now_ns, int status, struct ib_cm_result *ret)
{
	if (c->state == IB_CM_DREQ_SENT) {
		linger(c, IB_CM_TIMEWAIT, now_ns);
		notify(ret, IB_CM_DOWN, status);
		return;
	}
	if (c->state == IB_CM_DOUBTED) {
		send_dreq(c, now_ns, ret);
		return;
	}
	linger(c, IB_CM_REJECTED, now_ns);
	send_rej(c, MAD_REASON_TIMEOUT, MAD_ANSWERS_OTHER, NULL, 0, ret);
	notify(ret, IB_CM_UNREACHABLE, status);
}

static void repeat_later(struct ib_cm *c, uint64_t now_ns)
{
	c->interval_ns = clamp(2 * c->interval_ns, 0, MAX_REPEAT_MS * MS);
	c->due_ns = now_ns + c->interval_ns;
	if (c->due_ns > c->give_up_ns)
		c->due_ns = c->give_up_ns;
}

void ib_cm_timer(struct ib_cm *c, uint64_t now_ns, struct ib_cm_result *ret)
{
	*ret = (struct ib_cm_result){0};
	if (!c->due_ns || now_ns < c->due_ns)
		return;
	if (c->state == IB_CM_TIMEWAIT || c->state == IB_CM_REJECTED) {
		if (c->state == IB_CM_TIMEWAIT)
			notify(ret, IB_CM_TIMEWAIT_OVER, 0);
		move(c, IB_CM_GONE);
	} else if (now_ns >= c->give_up_ns) {
		give_up(c, now_ns, -ETIMEDOUT, ret);
	} else if (c->state == IB_CM_REQ_SENT && refusals_suffice(&c->refusals)) {
		give_up(c, now_ns, -ECONNREFUSED, ret);
	} else if (c->state == IB_CM_REP_SENT && c->n_repeats >= c->max_repeats) {
		c->due_ns = c->give_up_ns;
	} else {
		c->n_repeats++;
		repeat_later(c, now_ns);
		send_last(c, ret);
	}
}

void ib_cm_on_unreachable(struct ib_cm *c)
{
	if (c->state == IB_CM_REQ_SENT)
		refusals_add(&c->refusals);
}

/* ---- without a connection ----------------------------------------------------------- */

void ib_cm_refuse(const struct mad *req, enum mad_reason reason, uint8_t ret[MAD_BYTES])
{
	struct mad m = {.type = MAD_REJ, .tid = req->tid, .remote_id = req->local_id};

	m.rej.answered = MAD_ANSWERS_REQ;
	m.rej.reason = (uint16_t)reason;
	mad_encode(&m, ret);
}

bool ib_cm_answer_stray(const struct mad *m, uint8_t ret[MAD_BYTES])
{
	struct mad answer = {.tid = m->tid, .local_id = m->remote_id, .remote_id = m->local_id};

	if (m->type == MAD_DREQ) {
		answer.type = MAD_DREP;
	} else if (m->type == MAD_REP) {
		answer.type = MAD_REJ;
		answer.rej.answered = MAD_ANSWERS_REP;
		answer.rej.reason = MAD_REASON_NO_ID;
	} else {
		return false;
	}
	mad_encode(&answer, ret);
	return true;
}
