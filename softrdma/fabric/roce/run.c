/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "softrdma/fabric/lock.h"
#include "softrdma/fabric/roce/batch.h"
#include "softrdma/fabric/roce/host.h"
#include "softrdma/fabric/roce/link.h"
#include "softrdma/fabric/roce/local.h"
#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/requester_answers.h"
#include "softrdma/fabric/roce/responder_answers.h"
#include "softrdma/fabric/roce/responder_lossy.h"
#include "softrdma/fabric/roce/run.h"
#include "softrdma/verbs/qp_complete.h"
#include "softrdma/verbs/qp_run.h"
#include "softrdma/verbs/qp_table.h"

enum {
	TOUCHED = 64,
	RESPONSE_BYTES = 64 << 10, /* of READ responses in a row */
	NEXT_TICK_NS = 1000000,
	NEXT_BURST_NS = 100000, /* UC */
	NEAR_PSNS = 8192,	/* more than peers have under way */
};

/* Queue pairs of which the last batch of packets wants an answer; of the thread that reads. */
static _Thread_local struct {
	unsigned n;
	uint16_t slots[TOUCHED];
} touched;

static _Atomic uint64_t has_deadline[SEG_MAX_QP / 64]; /* bits: the tick looks at them */
static _Atomic uint64_t is_blocked[SEG_MAX_QP / 64];   /* bits: wait for a window */
static _Atomic unsigned n_blocked;
static _Atomic uint64_t tick_ns; /* when it comes; 0: not */
static struct sr_timer tick_timer;

static void set_bit(_Atomic uint64_t *words, uint32_t slot, bool on)
{
	uint64_t bit = 1ULL << slot % 64;

	if (on)
		atomic_fetch_or(&words[slot / 64], bit);
	else
		atomic_fetch_and(&words[slot / 64], ~bit);
}

static bool get_bit(_Atomic uint64_t *words, uint32_t slot)
{
	return atomic_load_explicit(&words[slot / 64], memory_order_relaxed) >> slot % 64 & 1;
}

/* ---- completions ---------------------------------------------------------------------------- */

static enum ibv_wc_status status_of(enum roce_failure f, const struct sr_wqe *w)
{
	switch (f) {
	case ROCE_FAILED_HERE:
		return (enum ibv_wc_status)w->byte_len;
	case ROCE_RNR_RETRIES_OVER:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case ROCE_REMOTE_REQUEST:
		return IBV_WC_REM_INV_REQ_ERR;
	case ROCE_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case ROCE_REMOTE_OPERATION:
		return IBV_WC_REM_OP_ERR;
	case ROCE_BAD_RESPONSE:
		return IBV_WC_BAD_RESP_ERR;
	default:
		return IBV_WC_RETRY_EXC_ERR;
	}
}

static void complete(struct sr_qp *qp, struct roce_link *l)
{
	enum roce_failure f;

	while (sr_qp_state(qp) != IBV_QPS_ERR && roce_requester_pop(&l->q, &f)) {
		struct sr_wqe *w = sr_qp_wqe(qp, qp->owed);

		if (f) {
			sr_qp_fail(qp, qp->owed, status_of(f, w));
			return;
		}
		w->stage = WQE_COMPLETE;
		qp->owed++;
		sr_qp_complete(qp, w, qp->owed, IBV_WC_SUCCESS, w->byte_len);
	}
}

/* The request cannot be carried out here. */
static void fail_here(struct sr_qp *qp, uint64_t index, enum ibv_wc_status status)
{
	sr_qp_wqe(qp, index)->byte_len = status;
	roce_requester_fail(&qp->end.link->q, index);
}

/* The responder has refused a request: the queue pair ends, and the helper flushes it. */
static void end_responder(struct sr_qp *qp, const struct roce_link *l)
{
	uint32_t event = sr_qp_is_lossy(qp) ? 0 /* the completion of the receive reports it */
			 : l->r.broken == ROCE_NAK_ACCESS  ? SEG_EV_ACCESS_ERR
			 : l->r.broken == ROCE_NAK_REQUEST ? SEG_EV_REQ_ERR
							   : SEG_EV_FATAL;

	if (sr_qp_state(qp) == IBV_QPS_ERR)
		return;
	atomic_store(&qp->s->state, IBV_QPS_ERR);
	sr_peer_kick_qp(sr_peer_self, qp->slot, event | SEG_EV_FLUSH);
}

/* ---- out ------------------------------------------------------------------------------------ */

/* One packet whose payload stands behind its headers. */
static void send_packet(struct roce_batch *b, const struct roce_link *l, struct roce_packet *p,
			uint8_t *at, size_t headers)
{
	unsigned pad = roce_pad_bytes(p->payload_bytes);

	memset(at + headers + p->payload_bytes, 0, pad);
	roce_batch_add(b, &l->way, headers + p->payload_bytes + pad);
}

/* The payload of a READ's response. XRC: in the domain of the SRQ that the request has named. */
static bool read_for(struct sr_qp *qp, const struct roce_answer *a, uint8_t *to)
{
	bool is_done;

	if (!sr_qp_is_xrc_recv(qp))
		return roce_read_memory(qp, a->rkey, a->va, to, a->packet.payload_bytes);
	sr_rq_lock(sr_peer_self, qp->slot);
	roce_aim(qp, a->packet.srqn);
	is_done = !qp->end.link->is_astray &&
		  roce_read_memory(qp, a->rkey, a->va, to, a->packet.payload_bytes);
	sr_rq_unlock(sr_peer_self, qp->slot);
	return is_done;
}

/* False: nothing is owed. */
static bool send_answer(struct sr_qp *qp, struct roce_link *l, struct roce_batch *b,
			uint32_t *ret_bytes)
{
	struct roce_answer a;
	uint8_t *at;
	size_t headers;

	if (!roce_responder_next(&l->r, &a))
		return false;
	at = roce_batch_room(b);
	a.packet.dest_qpn = l->dest_qpn;
	a.packet.opcode = roce_opcode_of(qp, a.packet.opcode);
	headers = roce_packet_encode(&a.packet, at);
	*ret_bytes += a.packet.payload_bytes + ROCE_PACKET_COST;
	if (a.packet.payload_bytes && !read_for(qp, &a, at + headers)) {
		roce_responder_refuse(&l->r, &a, ROCE_DENIED);
		end_responder(qp, l);
		return true;
	}
	send_packet(b, l, &a.packet, at, headers);
	return true;
}

/* True: more is owed. */
static bool send_answers(struct sr_qp *qp, struct roce_link *l, struct roce_batch *b)
{
	uint32_t bytes = 0;

	while (bytes < RESPONSE_BYTES)
		if (!send_answer(qp, l, b, &bytes))
			return false;
	return l->r.n_owed;
}

static void send_request(struct sr_qp *qp, struct roce_link *l, struct roce_batch *b,
			 struct roce_out *out)
{
	const struct sr_wqe *w = sr_qp_wqe(qp, out->index);
	enum ibv_wc_status status;
	size_t headers;
	uint8_t *at;

	if (out->is_local) {
		status = roce_execute_local(qp, w);
		if (status)
			fail_here(qp, out->index, status);
		return;
	}
	at = roce_batch_room(b);
	out->packet.dest_qpn = l->dest_qpn;
	if (sr_qp_is_xrc_send(qp)) {
		out->packet.opcode |= ROCE_XRC;
		out->packet.srqn = sr_qp_extra(qp, w)->srqn;
	}
	headers = roce_packet_encode(&out->packet, at);
	if (out->packet.payload_bytes &&
	    !roce_gather(qp, w, out->offset, at + headers, out->packet.payload_bytes)) {
		fail_here(qp, out->index, IBV_WC_LOC_PROT_ERR);
		return;
	}
	send_packet(b, l, &out->packet, at, headers);
}

static void set_blocked(struct sr_qp *qp, struct roce_link *l, bool on)
{
	if (l->is_blocked == on)
		return;
	l->is_blocked = on;
	set_bit(is_blocked, qp->slot, on);
	if (on)
		atomic_fetch_add(&n_blocked, 1);
	else
		atomic_fetch_sub(&n_blocked, 1);
}

static uint64_t room_of(const struct sr_qp *qp, struct roce_link *l, uint64_t now)
{
	return sr_qp_is_lossy(qp) ? roce_pace_room(&l->pace, now) : roce_link_room(l);
}

static void send_requests(struct sr_qp *qp, struct roce_link *l, struct roce_batch *b, uint64_t now)
{
	struct roce_out out;
	enum roce_pause pause;

	for (;;) {
		pause = roce_requester_next(&l->q, now, room_of(qp, l, now), &out);
		if (pause != ROCE_GO)
			break;
		send_request(qp, l, b, &out);
		if (sr_qp_is_lossy(qp))
			roce_pace_spend(&l->pace, out.packet.payload_bytes + ROCE_PACKET_COST);
		else
			roce_link_account(l, now);
	}
	set_blocked(qp, l, pause == ROCE_FULL);
}

static bool may_answer(const struct sr_qp *qp, const struct roce_link *l)
{
	enum ibv_qp_state state = sr_qp_state(qp);

	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       (state == IBV_QPS_ERR && l->r.broken);
}

static bool may_request(const struct sr_qp *qp, const struct roce_link *l)
{
	enum ibv_qp_state state = sr_qp_state(qp);

	return l->has_requester && (state == IBV_QPS_RTS || state == IBV_QPS_SQD);
}

static void set_deadline(struct sr_qp *qp, const struct roce_link *l, bool has_more, uint64_t now)
{
	uint64_t due = may_request(qp, l) ? roce_requester_deadline(&l->q) : 0;
	uint64_t again = now + (sr_qp_is_lossy(qp) ? NEXT_BURST_NS : NEXT_TICK_NS);

	if ((has_more || l->is_blocked) && (!due || due > again))
		due = again;
	if (get_bit(has_deadline, qp->slot) != !!due)
		set_bit(has_deadline, qp->slot, due);
	if (due)
		roce_wake_at(due);
}

void roce_retire(struct sr_qp *qp)
{
	roce_link_abandon(qp->end.link);
	set_blocked(qp, qp->end.link, false);
	set_bit(has_deadline, qp->slot, false);
}

void roce_pump(struct sr_qp *qp)
{
	struct roce_link *l = qp->end.link;
	uint64_t now = sr_now_ns();
	bool has_more = false;
	struct roce_batch *b;

	if (!l)
		return;
	b = roce_batch_begin();
	if (may_answer(qp, l))
		has_more = send_answers(qp, l, b);
	if (may_request(qp, l))
		send_requests(qp, l, b, now);
	roce_batch_end(b);
	if (l->has_requester) {
		complete(qp, l);
		roce_link_account(l, now);
	}
	if (l->has_requester && !may_request(qp, l))
		roce_retire(qp);
	set_deadline(qp, l, has_more, now);
}

/* ---- in ------------------------------------------------------------------------------------- */

/* IBA table 45, in units of 10 us. */
static uint64_t rnr_ns(uint8_t syndrome)
{
	static const uint32_t rnr_10us[32] = {65536, 1,	   2,	 3,	4,     6,     8,     12,
					      16,    24,   32,	 48,	64,    96,    128,   192,
					      256,   384,  512,	 768,	1024,  1536,  2048,  3072,
					      4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

	return rnr_10us[syndrome & 31] * 10000ULL;
}

static void take_response(struct sr_qp *qp, struct roce_link *l, const struct roce_packet *p,
			  uint64_t now)
{
	struct roce_placement at;
	enum roce_effect effect = roce_requester_receive(&l->q, p, rnr_ns(p->syndrome), now, &at);
	const struct sr_wqe *w;
	bool placed;

	if (effect == ROCE_PLACE || effect == ROCE_PLACE_ATOMIC) {
		w = sr_qp_wqe(qp, at.index);
		placed = effect == ROCE_PLACE
				 ? roce_scatter(qp, w, at.offset, p->payload, p->payload_bytes)
				 : roce_scatter(qp, w, 0, (const uint8_t *)&p->original, 8);
		if (placed)
			roce_requester_placed(&l->q, now);
		else
			fail_here(qp, at.index, IBV_WC_LOC_PROT_ERR);
	}
	roce_link_account(l, now);
	complete(qp, l);
}

static void note_arrival(struct sr_qp *qp)
{
	if (sr_qp_state(qp) != IBV_QPS_RTR || atomic_exchange(&qp->s->established, 1))
		return;
	sr_peer_kick_qp(sr_peer_self, qp->slot, SEG_EV_COMM_EST);
}

static void take_request(struct sr_qp *qp, struct roce_link *l, const struct roce_packet *p)
{
	uint32_t before = l->r.expected;

	l->r.rnr_timer = qp->attr.min_rnr_timer & 31;
	sr_rq_lock(sr_peer_self, qp->slot);
	if (sr_qp_is_xrc_recv(qp))
		roce_aim(qp, p->srqn);
	if (sr_qp_is_lossy(qp))
		roce_responder_receive_lossy(&l->r, p, &roce_host, qp);
	else
		roce_responder_receive(&l->r, p, &roce_host, qp);
	sr_rq_unlock(sr_peer_self, qp->slot);
	if (l->r.broken)
		end_responder(qp, l);
	else if (l->r.expected != before)
		note_arrival(qp);
}

static unsigned kind_of(const struct sr_qp *qp)
{
	if (sr_qp_is_lossy(qp))
		return ROCE_IS_UC;
	return sr_qp_is_xrc_send(qp) || sr_qp_is_xrc_recv(qp) ? ROCE_IS_XRC : ROCE_IS_RC;
}

static bool is_for(const struct sr_qp *qp, const struct roce_port *port, const union ibv_gid *from,
		   const struct roce_packet *p)
{
	const struct roce_link *l = qp ? qp->end.link : NULL;

	return l && (roce_traits(p->opcode) & kind_of(qp) || p->opcode == ROCE_CNP) &&
	       l->port == port && qp->ib.qp_base.qp_num == p->dest_qpn &&
	       !memcmp(&l->peer->gid, from, sizeof(*from));
}

/*
 * Whether the packet's number is one that the peer would use now: strangers have to guess it. A
 * duplicate may be older than that, and is answered all the same.
 */
static bool is_near(const struct sr_qp *qp, const struct roce_link *l, const struct roce_packet *p)
{
	if (roce_traits(p->opcode) & ROCE_IS_RESPONSE)
		return may_request(qp, l) &&
		       roce_psn_within(p->psn, roce_psn_add(l->q.una, -NEAR_PSNS),
				       NEAR_PSNS + ((l->q.end - l->q.una) & ROCE_PSN_MASK));
	return roce_psn_within(p->psn, roce_psn_add(l->r.expected, -NEAR_PSNS), 2 * NEAR_PSNS);
}

/* Whether the packet is one that the peer has to send now. */
static bool is_next(const struct roce_link *l, const struct roce_packet *p)
{
	return roce_traits(p->opcode) & ROCE_IS_RESPONSE ? roce_requester_awaits(&l->q, p->psn)
							 : p->psn == l->r.expected;
}

/* Whether the packet comes from where the peer's packets come from. */
static bool is_from_peer(struct roce_link *l, const struct roce_packet *p,
			 const struct roce_arrival *how, bool near, uint64_t now)
{
	struct roce_peer *peer = l->peer;
	struct roce_ip_id seen;
	bool fits;

	if (l->peer_port && l->peer_port != how->source_port)
		return false;
	pthread_mutex_lock(&peer->lock);
	seen = peer->ip_id;
	fits = roce_ip_id_fits(near ? &peer->ip_id : &seen, how->ip_id, now / 1000000);
	pthread_mutex_unlock(&peer->lock);
	if (near && fits && is_next(l, p))
		l->peer_port = how->source_port;
	return fits;
}

/* The network is congested on the way to the peer, or on the way here. */
static void slow_down(struct roce_peer *peer, bool has_number, uint64_t now)
{
	pthread_mutex_lock(&peer->lock);
	if (has_number)
		roce_window_cut(&peer->window, now, peer->srtt_ns);
	else
		roce_window_notify(&peer->window, now, peer->srtt_ns);
	pthread_mutex_unlock(&peer->lock);
}

/* Only what is under way can have met congestion. */
static void take_cnp(const struct roce_link *l, uint64_t now)
{
	if (l->has_requester && l->q.in_flight)
		slow_down(l->peer, false, now);
}

static void take_from_peer(struct sr_qp *qp, struct roce_link *l, const struct roce_packet *p,
			   uint64_t now)
{
	if (!(roce_traits(p->opcode) & ROCE_IS_RESPONSE)) {
		if (may_answer(qp, l) && !sr_qp_is_xrc_send(qp))
			take_request(qp, l, p);
	} else if (may_request(qp, l)) {
		take_response(qp, l, p, now);
	}
}

static void take_packet(struct sr_qp *qp, const struct roce_packet *p,
			const struct roce_arrival *how)
{
	struct roce_link *l = qp->end.link;
	uint64_t now = sr_now_ns();
	struct roce_packet as_rc;
	bool near;

	if (p->opcode == ROCE_CNP) {
		take_cnp(l, now);
		return;
	}
	if (kind_of(qp) == ROCE_IS_XRC) {
		as_rc = *p;
		as_rc.opcode &= ROCE_BASE_OPCODE;
		p = &as_rc;
	}
	near = is_near(qp, l, p);
	if (!is_from_peer(l, p, how, near, now))
		return;
	if (near && (how->congested || p->was_congested))
		slow_down(l->peer, true, now);
	take_from_peer(qp, l, p, now);
}

static void touch(uint32_t slot)
{
	for (unsigned i = 0; i < touched.n; i++)
		if (touched.slots[i] == slot)
			return;
	if (touched.n == TOUCHED)
		roce_after_batch();
	touched.slots[touched.n++] = (uint16_t)slot;
}

void roce_on_connected_packet(struct roce_port *port, const union ibv_gid *from,
			      const struct roce_packet *p, const struct roce_arrival *how)
{
	uint32_t slot = seg_qp_slot(seg_self, p->dest_qpn);
	struct sr_qp *qp;

	if (slot >= SEG_MAX_QP)
		return;
	sr_qp_table_lock();
	qp = sr_qp_table[slot];
	if (qp && qp->is_live) {
		pthread_mutex_lock(&qp->sq_lock);
		if (is_for(qp, port, from, p))
			take_packet(qp, p, how);
		pthread_mutex_unlock(&qp->sq_lock);
	}
	sr_qp_table_unlock();
	touch(slot);
}

/* ---- many ----------------------------------------------------------------------------------- */

static void pump_slot(uint32_t slot, bool is_tick)
{
	struct sr_qp *qp;

	sr_qp_table_lock();
	qp = sr_qp_table[slot];
	if (qp && qp->is_live) {
		pthread_mutex_lock(&qp->sq_lock);
		if (is_tick && qp->end.link && may_request(qp, qp->end.link))
			roce_requester_tick(&qp->end.link->q, sr_now_ns());
		roce_pump(qp);
		pthread_mutex_unlock(&qp->sq_lock);
	}
	sr_qp_table_unlock();
}

static void pump_all(_Atomic uint64_t *words, bool is_tick)
{
	for (uint32_t i = 0; i < SEG_MAX_QP / 64; i++)
		for (uint64_t bits = atomic_load(&words[i]); bits; bits &= bits - 1)
			pump_slot(i * 64 + (uint32_t)__builtin_ctzll(bits), is_tick);
}

void roce_after_batch(void)
{
	unsigned n = touched.n;

	touched.n = 0;
	for (unsigned i = 0; i < n; i++)
		pump_slot(touched.slots[i], false);
	if (atomic_load_explicit(&n_blocked, memory_order_relaxed))
		pump_all(is_blocked, false);
}

static void tick(uint64_t arg)
{
	uint64_t due;

	atomic_store(&tick_ns, 0);
	due = roce_held_tick(sr_now_ns());
	if (due)
		roce_wake_at(due);
	pump_all(has_deadline, true);
}

void roce_wake_at(uint64_t ns)
{
	uint64_t set = atomic_load_explicit(&tick_ns, memory_order_relaxed);
	uint64_t now;

	do {
		if (set && set <= ns)
			return;
	} while (!atomic_compare_exchange_weak(&tick_ns, &set, ns));
	now = sr_now_ns();
	sr_timer_start(&tick_timer, ns > now ? ns - now : 0, tick, 0);
}

void roce_run_forget(void)
{
	for (unsigned i = 0; i < SEG_MAX_QP / 64; i++) {
		atomic_store(&has_deadline[i], 0);
		atomic_store(&is_blocked[i], 0);
	}
	atomic_store(&n_blocked, 0);
	atomic_store(&tick_ns, 0);
}
