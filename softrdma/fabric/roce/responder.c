/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests in order, ahead and behind; see responder.h. Answers are in responder_answers.c. */
#include "softrdma/fabric/roce/responder.h"

#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/responder_answers.h"

#define MESSAGE_MAX 0x80000000u /* IBA 9.7.4: 2^31 bytes */

void roce_responder_init(struct roce_responder *r, uint32_t mtu, uint32_t first_psn,
			 unsigned max_dest_rd_atomic, uint8_t rnr_timer, struct roce_saved *ring)
{
	unsigned n = max_dest_rd_atomic ? max_dest_rd_atomic : 1;

	*r = (struct roce_responder){.mtu = mtu,
				     .max_saved = n,
				     .allows = max_dest_rd_atomic,
				     .rnr_timer = rnr_timer & 31,
				     .expected = first_psn & ROCE_PSN_MASK,
				     .saved = ring,
				     .owed = ring + n};
}

/* The expected request is not carried out. */
static void refuse(struct roce_responder *r, enum roce_verdict why)
{
	if (why != ROCE_NOT_READY) {
		roce_responder_break(r, r->expected, why);
		return;
	}
	r->is_refusing = true;
	r->n_refused++;
	roce_responder_answer(r, r->expected, ROCE_SYNDROME_RNR | r->rnr_timer);
}

static void proceed(struct roce_responder *r, uint32_t n)
{
	r->expected = roce_psn_add(r->expected, n);
	r->has_naked = r->is_refusing = false;
}

/* ---- SEND and WRITE ------------------------------------------------------------------------- */

static bool is_send(uint8_t opcode)
{
	opcode &= (uint8_t)~ROCE_UC;
	return opcode <= ROCE_SEND_ONLY_IMM || opcode == ROCE_SEND_LAST_INV ||
	       opcode == ROCE_SEND_ONLY_INV;
}

/* First and only packets between messages, middle and last ones within their own. */
bool roce_responder_is_in_order(const struct roce_responder *r, uint8_t opcode)
{
	if (roce_traits(opcode) & ROCE_BEGINS)
		return r->inbound == ROCE_BETWEEN;
	return r->inbound == (is_send(opcode) ? ROCE_IN_SEND : ROCE_IN_WRITE);
}

/* IBA 9.7.4.1.6: all packets are full but the last; an only one may be empty. */
static bool has_right_length(const struct roce_responder *r, const struct roce_packet *p)
{
	unsigned traits = roce_traits(p->opcode);

	if (!(traits & ROCE_ENDS))
		return p->payload_bytes == r->mtu;
	return p->payload_bytes <= r->mtu && (p->payload_bytes || traits & ROCE_BEGINS);
}

static enum roce_verdict take_send(struct roce_responder *r, const struct roce_packet *p,
				   const struct roce_host *host, void *context)
{
	bool ends = roce_traits(p->opcode) & ROCE_ENDS;
	enum roce_verdict v = host->take(context);

	if (v && r->done && v == ROCE_NOT_READY)
		v = ROCE_BROKEN; /* it was there when the message began */
	if (!v && p->payload_bytes > MESSAGE_MAX - r->done)
		v = ROCE_INVALID;
	if (!v)
		v = host->scatter(context, r->done, p->payload, p->payload_bytes);
	if (!v && ends)
		v = host->deliver(context, p, false, r->done + p->payload_bytes);
	if (v)
		return v;
	r->inbound = ends ? ROCE_BETWEEN : ROCE_IN_SEND;
	r->done = ends ? 0 : r->done + p->payload_bytes;
	r->msn += ends;
	return ROCE_OK;
}

static enum roce_verdict begin_write(struct roce_responder *r, const struct roce_packet *p,
				     const struct roce_host *host, void *context)
{
	if (p->length > MESSAGE_MAX)
		return ROCE_INVALID;
	r->write_key = p->rkey;
	r->write_va = p->va;
	r->write_length = p->length;
	r->done = 0;
	return host->check(context, ROCE_MAY_WRITE, p->rkey, p->va, p->length);
}

static enum roce_verdict take_write(struct roce_responder *r, const struct roce_packet *p,
				    const struct roce_host *host, void *context)
{
	unsigned traits = roce_traits(p->opcode);
	enum roce_verdict v = ROCE_OK;
	uint32_t left;

	if (traits & ROCE_BEGINS)
		v = begin_write(r, p, host, context);
	left = r->write_length - r->done;
	if (!v && (traits & ROCE_ENDS ? p->payload_bytes != left : p->payload_bytes >= left))
		v = ROCE_INVALID;
	if (!v && traits & ROCE_HAS_IMM)
		v = host->take(context);
	if (!v && p->payload_bytes)
		v = host->write(context, r->write_key, r->write_va + r->done, p->payload,
				p->payload_bytes);
	if (!v && traits & ROCE_HAS_IMM)
		v = host->deliver(context, p, true, r->write_length);
	if (v)
		return v;
	r->inbound = traits & ROCE_ENDS ? ROCE_BETWEEN : ROCE_IN_WRITE;
	r->done = traits & ROCE_ENDS ? 0 : r->done + p->payload_bytes;
	r->msn += !!(traits & ROCE_ENDS);
	return ROCE_OK;
}

enum roce_verdict roce_responder_message(struct roce_responder *r, const struct roce_packet *p,
					 const struct roce_host *host, void *context)
{
	if (!has_right_length(r, p))
		return ROCE_INVALID;
	return is_send(p->opcode) ? take_send(r, p, host, context)
				  : take_write(r, p, host, context);
}

static void take_message(struct roce_responder *r, const struct roce_packet *p,
			 const struct roce_host *host, void *context)
{
	enum roce_verdict v = roce_responder_message(r, p, host, context);

	if (v) {
		refuse(r, v);
		return;
	}
	proceed(r, 1);
	if (p->ack_request)
		roce_responder_answer(r, p->psn, ROCE_SYNDROME_ACK);
}

/* ---- READ and atomics ----------------------------------------------------------------------- */

static void take_read(struct roce_responder *r, const struct roce_packet *p,
		      const struct roce_host *host, void *context)
{
	enum roce_verdict v = r->allows && p->length <= MESSAGE_MAX
				      ? host->check(context, ROCE_MAY_READ, p->rkey, p->va,
						    p->length)
				      : ROCE_INVALID;
	struct roce_saved s = {.psn = p->psn,
			       .n_packets = roce_n_packets(p->length, r->mtu),
			       .rkey = p->rkey,
			       .length = p->length,
			       .va = p->va,
			       .msn = r->msn + 1,
			       .srqn = p->srqn};

	if (!v && !roce_responder_owe(r, &s))
		v = ROCE_INVALID; /* more of them under way than was agreed */
	if (v) {
		refuse(r, v);
		return;
	}
	r->msn++;
	roce_responder_save(r, &s);
	proceed(r, s.n_packets);
}

static void take_atomic(struct roce_responder *r, const struct roce_packet *p,
			const struct roce_host *host, void *context)
{
	struct roce_saved s = {.is_atomic = true, .psn = p->psn, .n_packets = 1, .msn = r->msn + 1};
	enum roce_verdict v = ROCE_INVALID;

	if (r->allows && p->va % 8 == 0 && roce_responder_has_room(r)) /* IBA 9.7.5.2.6 */
		v = host->check(context, ROCE_MAY_ATOMIC, p->rkey, p->va, 8);
	if (!v)
		v = host->atomic(context, p, &s.original);
	if (v) {
		refuse(r, v);
		return;
	}
	r->msn++;
	roce_responder_owe(r, &s);
	roce_responder_save(r, &s);
	proceed(r, 1);
}

static void take_expected(struct roce_responder *r, const struct roce_packet *p,
			  const struct roce_host *host, void *context)
{
	if (!roce_responder_is_in_order(r, p->opcode))
		refuse(r, ROCE_INVALID);
	else if (p->opcode == ROCE_READ_REQUEST)
		take_read(r, p, host, context);
	else if (roce_traits(p->opcode) & ROCE_HAS_ATOMIC)
		take_atomic(r, p, host, context);
	else
		take_message(r, p, host, context);
}

/* ---- behind and ahead ----------------------------------------------------------------------- */

/* IBA 9.7.5.1.4: the whole of what was asked for then, or its end. */
static bool continues(const struct roce_responder *r, const struct roce_saved *s,
		      const struct roce_packet *p)
{
	uint64_t skipped = (uint64_t)((p->psn - s->psn) & ROCE_PSN_MASK) * r->mtu;

	return p->srqn == s->srqn && p->rkey == s->rkey && p->va == s->va + skipped &&
	       p->length <= s->length - skipped && (p->length || !s->length);
}

static void repeat_read(struct roce_responder *r, const struct roce_packet *p,
			const struct roce_host *host, void *context)
{
	const struct roce_saved *s = roce_responder_find(r, p->psn);
	struct roce_saved again;

	if (!s || s->is_atomic || !continues(r, s, p) || roce_responder_owes(r, p->psn) ||
	    host->check(context, ROCE_MAY_READ, p->rkey, p->va, p->length))
		return;
	again = *s;
	again.psn = p->psn;
	again.va = p->va;
	again.length = p->length;
	again.n_packets = roce_n_packets(p->length, r->mtu);
	roce_responder_forgo(r, p->psn);
	roce_responder_owe(r, &again);
}

static void repeat_atomic(struct roce_responder *r, const struct roce_packet *p)
{
	const struct roce_saved *s = roce_responder_find(r, p->psn);
	struct roce_saved again;

	if (!s || !s->is_atomic || roce_responder_owes(r, p->psn))
		return;
	again = *s;
	roce_responder_forgo(r, p->psn);
	roce_responder_owe(r, &again);
}

static void take_duplicate(struct roce_responder *r, const struct roce_packet *p,
			   const struct roce_host *host, void *context)
{
	r->n_duplicates++;
	if (p->opcode == ROCE_READ_REQUEST)
		repeat_read(r, p, host, context);
	else if (roce_traits(p->opcode) & ROCE_HAS_ATOMIC)
		repeat_atomic(r, p);
	else if (!r->broken && !r->is_refusing)
		roce_responder_answer(r, roce_responder_ack_for(r, p->psn), ROCE_SYNDROME_ACK);
}

void roce_responder_receive(struct roce_responder *r, const struct roce_packet *p,
			    const struct roce_host *host, void *context)
{
	int32_t ahead = roce_psn_diff(p->psn, r->expected);

	if (r->broken) {
		if (!ahead) /* the NAK was lost, or this is the requester's last retry */
			roce_responder_answer(r, p->psn, r->broken);
		return;
	}
	if (!ahead) {
		take_expected(r, p, host, context);
		return;
	}
	if (ahead < 0) {
		take_duplicate(r, p, host, context);
		return;
	}
	r->n_gaps++;
	if (r->has_naked || r->is_refusing)
		return;
	r->has_naked = true;
	roce_responder_answer(r, r->expected, ROCE_NAK_SEQUENCE);
}
