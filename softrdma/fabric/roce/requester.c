/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending side of a requester; see requester.h. Its answers are in requester_answers.c.
 */
#include "softrdma/fabric/roce/requester.h"

#include <assert.h>

#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/requester_parts.h"

void roce_requester_init(struct roce_requester *r, const struct roce_requester_config *config,
			 struct roce_request *ring, uint32_t mask)
{
	uint32_t psn = config->first_psn & ROCE_PSN_MASK;

	*r = (struct roce_requester){.config = *config,
				     .ring = ring,
				     .mask = mask,
				     .una = psn,
				     .next = psn,
				     .end = psn,
				     .posted_psn = psn};
}

void roce_requester_post(struct roce_requester *r, const struct roce_request *request)
{
	struct roce_request *q = roce_request_at(r, r->head);

	assert(r->head - r->tail <= r->mask);
	*q = *request;
	q->has_begun = false;
	q->psn = r->posted_psn;
	q->n_packets = q->kind == ROCE_LOCAL || q->failure ? 0
		       : roce_is_atomic(q)		   ? 1
					   : roce_n_packets(q->length, r->config.mtu);
	r->posted_psn = roce_psn_add(r->posted_psn, q->n_packets);
	r->head++;
}

static bool is_done(const struct roce_requester *r, const struct roce_request *q)
{
	if (q->kind == ROCE_LOCAL || q->failure)
		return q->kind == ROCE_LOCAL && q->has_begun && !q->failure;
	return q->has_begun && !roce_psn_within(r->una, q->psn, q->n_packets);
}

void roce_requester_settle(struct roce_requester *r)
{
	while (r->acked != r->begun && is_done(r, roce_request_at(r, r->acked)))
		r->acked++;
	if (r->current < r->acked)
		r->current = r->acked;
}

/* ---- one packet ----------------------------------------------------------------------------- */

static uint32_t chunk_packets(const struct roce_requester *r)
{
	return ROCE_READ_BYTES / r->config.mtu;
}

/* How many packets of the READ's response the request at packet i asks for: to the chunk's end. */
static uint32_t ask_for(const struct roce_requester *r, const struct roce_request *q, uint32_t i)
{
	uint32_t chunk = chunk_packets(r), end = (i / chunk + 1) * chunk;

	return (end < q->n_packets ? end : q->n_packets) - i;
}

bool roce_ends_chunk(const struct roce_requester *r, const struct roce_request *q, uint32_t i)
{
	return i + 1 == q->n_packets || (q->kind == ROCE_READ && (i + 1) % chunk_packets(r) == 0);
}

uint64_t roce_cost(const struct roce_requester *r, const struct roce_request *q, uint32_t i,
		   uint32_t n)
{
	uint64_t begin = (uint64_t)i * r->config.mtu, end = begin + (uint64_t)n * r->config.mtu;

	if (roce_is_atomic(q))
		return ROCE_PACKET_COST;
	return (end < q->length ? end : q->length) - begin + (uint64_t)n * ROCE_PACKET_COST;
}

static uint8_t send_opcode(const struct roce_request *q, bool first, bool last)
{
	if (!last)
		return first ? ROCE_SEND_FIRST : ROCE_SEND_MIDDLE;
	if (q->has_invalidate)
		return first ? ROCE_SEND_ONLY_INV : ROCE_SEND_LAST_INV;
	if (q->has_imm)
		return first ? ROCE_SEND_ONLY_IMM : ROCE_SEND_LAST_IMM;
	return first ? ROCE_SEND_ONLY : ROCE_SEND_LAST;
}

static uint8_t write_opcode(const struct roce_request *q, bool first, bool last)
{
	if (!last)
		return first ? ROCE_WRITE_FIRST : ROCE_WRITE_MIDDLE;
	if (q->has_imm)
		return first ? ROCE_WRITE_ONLY_IMM : ROCE_WRITE_LAST_IMM;
	return first ? ROCE_WRITE_ONLY : ROCE_WRITE_LAST;
}

static uint8_t opcode_of(const struct roce_request *q, uint32_t i)
{
	bool first = i == 0, last = i + 1 == q->n_packets;

	switch ((enum roce_kind)q->kind) {
	case ROCE_SEND:
		return send_opcode(q, first, last);
	case ROCE_WRITE:
		return write_opcode(q, first, last);
	case ROCE_READ:
		return ROCE_READ_REQUEST;
	case ROCE_SWAP:
		return ROCE_COMPARE_SWAP;
	default:
		return ROCE_FETCH_ADD;
	}
}

/* Packet i of request q, which stands for n numbers. */
static void describe(const struct roce_requester *r, const struct roce_request *q, uint32_t i,
		     uint32_t n, struct roce_out *ret)
{
	struct roce_packet *p = &ret->packet;
	uint64_t left = q->length - (uint64_t)i * r->config.mtu;

	*ret = (struct roce_out){.index = r->current, .offset = i * r->config.mtu};
	p->opcode = opcode_of(q, i);
	p->psn = r->next;
	p->rkey = q->rkey;
	p->va = q->va;
	p->length = q->length;
	p->imm = p->invalidate_key = q->imm;
	p->swap_add = q->swap_add;
	p->compare = q->compare;
	p->ack_request = i + n == q->n_packets;
	p->solicited = q->is_solicited && p->ack_request;
	if (r->config.is_lossy) {
		p->opcode |= ROCE_UC;
		p->ack_request = false;
	}
	if (q->kind == ROCE_READ) {
		p->va += ret->offset;
		left = left < (uint64_t)n * r->config.mtu ? left : (uint64_t)n * r->config.mtu;
		p->length = (uint32_t)left;
		p->ack_request = true;
	} else if (!roce_is_atomic(q)) {
		p->payload_bytes = left < r->config.mtu ? (uint32_t)left : r->config.mtu;
	}
}

/* ---- which one, and whether it may go ------------------------------------------------------- */

/* A request that begins waits for READs and atomics before it, if it is fenced. */
static bool is_held_by_fence(const struct roce_requester *r, const struct roce_request *q)
{
	return q->is_fenced && r->next == q->psn && r->n_reads;
}

/* The current request, which has something to send. NULL: none has, and *ret tells why. */
static struct roce_request *find_current(struct roce_requester *r, enum roce_pause *ret)
{
	for (; r->current != r->head; r->current++) {
		struct roce_request *q = roce_request_at(r, r->current);

		*ret = ROCE_WAITS;
		if (q->failure) {
			if (r->current == r->acked)
				r->failure = q->failure;
			return NULL;
		}
		if (q->kind == ROCE_LOCAL) {
			if (q->has_begun)
				continue;
			return is_held_by_fence(r, q) ? NULL : q;
		}
		if (!roce_psn_within(r->next, q->psn, q->n_packets))
			continue;
		return is_held_by_fence(r, q) ? NULL : q;
	}
	*ret = r->una == r->end ? ROCE_IDLE : ROCE_WAITS;
	return NULL;
}

static void begin(struct roce_requester *r, struct roce_request *q)
{
	q->has_begun = true;
	if (r->begun == r->current)
		r->begun++;
}

static enum roce_pause run_local(struct roce_requester *r, struct roce_request *q,
				 struct roce_out *ret)
{
	*ret = (struct roce_out){.index = r->current, .is_local = true};
	begin(r, q);
	r->current++; /* done at the next call, so that the caller may fail it */
	return ROCE_GO;
}

uint64_t roce_probe_interval(const struct roce_requester *r)
{
	uint64_t ns = 4 * r->srtt_ns;

	ns = (ns > ROCE_PROBE_MIN_NS ? ns : ROCE_PROBE_MIN_NS)
	     << (r->n_probes < 8 ? r->n_probes : 8);
	return ns < ROCE_PROBE_MAX_NS ? ns : ROCE_PROBE_MAX_NS;
}

void roce_requester_start_timers(struct roce_requester *r, uint64_t now)
{
	bool waits = r->una != r->next;

	r->due_ns = waits && r->config.timeout_ns ? now + r->config.timeout_ns : 0;
	r->probe_ns = waits ? now + roce_probe_interval(r) : 0;
}

static void note_sent(struct roce_requester *r, uint32_t n, uint64_t cost, uint64_t now)
{
	bool is_new = r->next == r->end;

	if (is_new && !r->sample_ns) {
		r->sample_ns = now;
		r->sample_psn = roce_psn_add(r->next, n - 1);
	}
	r->n_resent += !is_new;
	r->next = roce_psn_add(r->next, n);
	if (roce_psn_diff(r->next, r->end) > 0)
		r->end = r->next;
	r->in_flight += cost;
	if (!r->due_ns && r->config.timeout_ns)
		r->due_ns = now + r->config.timeout_ns;
	if (!r->probe_ns)
		r->probe_ns = now + roce_probe_interval(r);
}

/* A sender that stops has asked for an acknowledgement: otherwise its window would stay shut. */
static void ask_for_ack(struct roce_requester *r, struct roce_packet *p, uint64_t room_left,
			uint32_t psns)
{
	if (++r->since_ack_request >= ROCE_ACK_EVERY ||
	    room_left < 2ULL * (r->config.mtu + ROCE_PACKET_COST) || psns + 1 >= ROCE_WINDOW_PSNS)
		p->ack_request = true;
	if (p->ack_request)
		r->since_ack_request = 0;
}

/* UC: what was sent is done. It is settled at the next call, so that the caller may fail it. */
static void forget_sent(struct roce_requester *r, uint32_t n)
{
	r->next = r->end = r->una = roce_psn_add(r->next, n);
}

enum roce_pause roce_requester_next(struct roce_requester *r, uint64_t now, uint64_t room,
				    struct roce_out *ret)
{
	enum roce_pause pause = ROCE_WAITS;
	struct roce_request *q;
	uint32_t i, n, under_way = (uint32_t)roce_psn_diff(r->next, r->una);
	uint64_t cost;

	roce_requester_settle(r);
	if (r->failure || r->rnr_until)
		return ROCE_WAITS;
	q = find_current(r, &pause);
	if (!q)
		return pause;
	if (q->kind == ROCE_LOCAL)
		return run_local(r, q, ret);
	i = (r->next - q->psn) & ROCE_PSN_MASK;
	n = q->kind == ROCE_READ ? ask_for(r, q, i) : 1;
	cost = roce_cost(r, q, i, n);
	if (roce_is_read(q) && r->n_reads >= r->config.max_rd_atomic)
		return ROCE_WAITS;
	if ((r->in_flight || r->config.is_lossy) &&
	    (cost > room || under_way + n > ROCE_WINDOW_PSNS))
		return cost > room ? ROCE_FULL : ROCE_WAITS;
	describe(r, q, i, n, ret);
	if (r->config.is_lossy) {
		begin(r, q);
		forget_sent(r, n);
		return ROCE_GO;
	}
	ask_for_ack(r, &ret->packet, room > cost ? room - cost : 0, under_way + n);
	begin(r, q);
	r->n_reads += roce_is_read(q);
	note_sent(r, n, cost, now);
	return ROCE_GO;
}
