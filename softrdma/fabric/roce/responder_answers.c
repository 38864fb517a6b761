/* SPDX-License-Identifier: BSD-3-Clause */
#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/responder.h"
#include "softrdma/fabric/roce/responder_answers.h"

void roce_responder_answer(struct roce_responder *r, uint32_t psn, uint8_t syndrome)
{
	r->owes_answer = true;
	r->answer_psn = psn;
	r->answer = syndrome;
}

static uint8_t nak_of(enum roce_verdict v)
{
	switch (v) {
	case ROCE_DENIED:
		return ROCE_NAK_ACCESS;
	case ROCE_BROKEN:
		return ROCE_NAK_OPERATION;
	default:
		return ROCE_NAK_REQUEST;
	}
}

void roce_responder_break(struct roce_responder *r, uint32_t psn, enum roce_verdict why)
{
	r->broken = nak_of(why);
	r->expected = psn;
	r->inbound = ROCE_BETWEEN;
	roce_responder_answer(r, psn, r->broken);
}

/* ---- owed ----------------------------------------------------------------------------------- */

static unsigned owed_max(const struct roce_responder *r)
{
	return 2 * r->max_saved;
}

static struct roce_saved *owed_at(const struct roce_responder *r, unsigned i)
{
	return &r->owed[(r->owed_first + i) % owed_max(r)];
}

bool roce_responder_has_room(const struct roce_responder *r)
{
	return r->n_owed < owed_max(r);
}

bool roce_responder_owe(struct roce_responder *r, const struct roce_saved *s)
{
	if (!roce_responder_has_room(r))
		return false;
	*owed_at(r, r->n_owed++) = *s;
	if (r->n_owed == 1)
		r->owed_packet = 0;
	/* It implies the acknowledgement of what comes before, which would now come too late. */
	if (r->answer == ROCE_SYNDROME_ACK && roce_psn_diff(s->psn, r->answer_psn) > 0)
		r->owes_answer = false;
	return true;
}

bool roce_responder_owes(const struct roce_responder *r, uint32_t psn)
{
	for (unsigned i = 0; i < r->n_owed; i++) {
		const struct roce_saved *s = owed_at(r, i);
		uint32_t packet = (psn - s->psn) & ROCE_PSN_MASK;

		if (packet < s->n_packets)
			return i || packet >= r->owed_packet;
	}
	return false;
}

void roce_responder_forgo(struct roce_responder *r, uint32_t psn)
{
	while (r->n_owed) {
		struct roce_saved *s = owed_at(r, r->n_owed - 1);
		uint32_t kept = (psn - s->psn) & ROCE_PSN_MASK;

		if (roce_psn_diff(psn, s->psn) > 0) {
			if (kept < s->n_packets) {
				s->n_packets = kept;
				s->length = kept * r->mtu;
			}
			break;
		}
		r->n_owed--;
	}
	if (r->n_owed == 1 && r->owed_packet >= owed_at(r, 0)->n_packets)
		r->n_owed = 0;
}

static void drop_first(struct roce_responder *r)
{
	r->owed_first = (r->owed_first + 1) % owed_max(r);
	r->n_owed--;
	r->owed_packet = 0;
}

static uint8_t read_opcode(bool first, bool last)
{
	if (first)
		return last ? ROCE_READ_ONLY : ROCE_READ_FIRST;
	return last ? ROCE_READ_LAST : ROCE_READ_MIDDLE;
}

static void next_of_read(struct roce_responder *r, const struct roce_saved *s,
			 struct roce_answer *ret)
{
	uint32_t i = r->owed_packet, offset = i * r->mtu, left = s->length - offset;

	ret->packet.opcode = read_opcode(i == 0, i + 1 == s->n_packets);
	ret->packet.psn = roce_psn_add(s->psn, i);
	ret->packet.payload_bytes = left < r->mtu ? left : r->mtu;
	ret->packet.srqn = s->srqn;
	ret->va = s->va + offset;
	ret->rkey = s->rkey;
}

static bool next_owed(struct roce_responder *r, struct roce_answer *ret)
{
	const struct roce_saved *s = owed_at(r, 0);

	ret->packet.syndrome = ROCE_SYNDROME_ACK;
	ret->packet.msn = s->msn;
	if (s->is_atomic) {
		ret->packet.opcode = ROCE_ATOMIC_ACK;
		ret->packet.psn = s->psn;
		ret->packet.original = s->original;
	} else {
		next_of_read(r, s, ret);
	}
	if (++r->owed_packet >= s->n_packets)
		drop_first(r);
	return true;
}

bool roce_responder_next(struct roce_responder *r, struct roce_answer *ret)
{
	*ret = (struct roce_answer){0};
	if (r->n_owed)
		return next_owed(r, ret);
	if (!r->owes_answer)
		return false;
	r->owes_answer = false;
	ret->packet.opcode = ROCE_ACK;
	ret->packet.psn = r->answer_psn;
	ret->packet.syndrome = r->answer;
	ret->packet.msn = r->msn;
	return true;
}

void roce_responder_refuse(struct roce_responder *r, const struct roce_answer *a,
			   enum roce_verdict why)
{
	r->n_owed = 0;
	roce_responder_break(r, a->packet.psn, why);
}

/* ---- remembered ----------------------------------------------------------------------------- */

void roce_responder_save(struct roce_responder *r, const struct roce_saved *s)
{
	r->last_saved = (r->last_saved + 1) % r->max_saved;
	r->saved[r->last_saved] = *s;
	if (r->n_saved < r->max_saved)
		r->n_saved++;
}

/* The i-th newest. */
static const struct roce_saved *saved_at(const struct roce_responder *r, unsigned i)
{
	return &r->saved[(r->last_saved + r->max_saved - i) % r->max_saved];
}

const struct roce_saved *roce_responder_find(const struct roce_responder *r, uint32_t psn)
{
	for (unsigned i = 0; i < r->n_saved; i++)
		if (roce_psn_within(psn, saved_at(r, i)->psn, saved_at(r, i)->n_packets))
			return saved_at(r, i);
	return NULL;
}

uint32_t roce_responder_ack_for(const struct roce_responder *r, uint32_t psn)
{
	uint32_t first = r->expected;

	for (unsigned i = 0; i < r->n_saved; i++)
		if (roce_psn_diff(saved_at(r, i)->psn, psn) > 0 &&
		    roce_psn_diff(saved_at(r, i)->psn, first) < 0)
			first = saved_at(r, i)->psn;
	return roce_psn_add(first, ROCE_PSN_MASK); /* the one before */
}
