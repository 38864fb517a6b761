/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCE packets of a hostile peer at both halves of a connection, with requests posted and time
 * passing in between: nothing is written outside of what was offered, and the halves stay within
 * their rings and windows.
 *
 * A script of records: what (1 byte; its top bit: of an unreliable connection), an argument (1
 * byte), then for packets their length (1 byte) and bytes from the BTH on. The argument replaces
 * the PSN: relative to what the half expects, so that scripts reach beyond the first comparison.
 */
#include <string.h>

#include "base/check.h"
#include "softrdma/fabric/roce/host.h"
#include "softrdma/fabric/roce/icrc.h"
#include "softrdma/fabric/roce/psn.h"
#include "softrdma/fabric/roce/requester.h"
#include "softrdma/fabric/roce/requester_answers.h"
#include "softrdma/fabric/roce/responder.h"
#include "softrdma/fabric/roce/responder_answers.h"
#include "softrdma/fabric/roce/responder_lossy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum {
	MTU = 128, /* smaller than any real one: records are short */
	RING = 8,
	MAX_RD = 2,
	MEMORY = 4096,
	RECEIVE_BYTES = 600,
	ANSWERS_MAX = 3000, /* a READ of all memory, as often as the ring of what is owed has it */
};

enum what {
	TO_RESPONDER,
	TO_REQUESTER,
	POST,
	SEND,
	ANSWER,
	TIME,
	RECEIVE,
	FAIL,
	RAW,
	N_WHAT
};

struct world {
	struct roce_requester q;
	struct roce_request ring[RING];
	struct roce_responder r;
	struct roce_saved saved[3 * MAX_RD];
	uint64_t now;
	unsigned n_receives;
	uint32_t received;
	uint8_t memory[MEMORY], receive[RECEIVE_BYTES];
};

/* ---- the responder's host ------------------------------------------------------------------- */

static enum roce_verdict take(void *context)
{
	struct world *w = context;

	return w->n_receives ? ROCE_OK : ROCE_NOT_READY;
}

static enum roce_verdict scatter(void *context, uint32_t offset, const uint8_t *data, uint32_t n)
{
	struct world *w = context;

	check(w->n_receives);
	check(offset == w->received || !offset);
	if (n && *data == 0xee)
		return ROCE_BROKEN;
	if (offset > RECEIVE_BYTES || n > RECEIVE_BYTES - offset)
		return ROCE_INVALID;
	memcpy(w->receive + offset, data, n);
	w->received = offset + n;
	return ROCE_OK;
}

static enum roce_verdict deliver(void *context, const struct roce_packet *last, bool is_write,
				 uint32_t length)
{
	struct world *w = context;

	check(w->n_receives);
	check(is_write || length == w->received);
	w->n_receives--;
	w->received = 0;
	return ROCE_OK;
}

static enum roce_verdict check_range(void *context, enum roce_access need, uint32_t rkey,
				     uint64_t va, uint32_t length)
{
	return !length || (va <= MEMORY && length <= MEMORY - va) ? ROCE_OK : ROCE_DENIED;
}

static enum roce_verdict write_memory(void *context, uint32_t rkey, uint64_t va,
				      const uint8_t *data, uint32_t n)
{
	struct world *w = context;

	check(n <= MTU && va <= MEMORY && n <= MEMORY - va);
	memcpy(w->memory + va, data, n);
	return ROCE_OK;
}

static enum roce_verdict atomic(void *context, const struct roce_packet *p, uint64_t *ret)
{
	struct world *w = context;

	check(p->va % 8 == 0 && p->va <= MEMORY - 8);
	memcpy(ret, w->memory + p->va, 8);
	return p->compare == 13 ? ROCE_BROKEN : ROCE_OK;
}

static const struct roce_host host = {take, scatter, deliver, check_range, write_memory, atomic};

/* ---- steps ---------------------------------------------------------------------------------- */

static void check_world(const struct world *w)
{
	check(w->q.tail <= w->q.acked && w->q.acked <= w->q.current && w->q.current <= w->q.head);
	check(w->q.head - w->q.tail <= RING);
	check(roce_psn_diff(w->q.next, w->q.una) >= 0 && roce_psn_diff(w->q.end, w->q.next) >= 0);
	check(w->q.n_reads <= w->q.config.max_rd_atomic);
	check(w->r.n_owed <= 2 * MAX_RD && w->r.n_saved <= MAX_RD);
	if (!w->q.config.is_lossy)
		return;
	check(w->q.una == w->q.end && !w->q.in_flight && !roce_requester_deadline(&w->q));
	check(!w->r.n_owed && !w->r.owes_answer);
}

static void post(struct world *w, uint8_t how)
{
	static const uint32_t lengths[] = {0, 1, MTU, MTU + 1, 3 * MTU, 40000, 8, 100};
	struct roce_request q = {.kind = how % 6, .length = lengths[how >> 5], .va = how};

	if (w->q.config.is_lossy && q.kind != ROCE_LOCAL)
		q.kind = how & 1 ? ROCE_WRITE : ROCE_SEND;
	q.has_imm = how & 8;
	q.has_invalidate = q.kind == ROCE_SEND && !q.has_imm && how & 16 && !w->q.config.is_lossy;
	q.is_fenced = how & 16;
	q.is_solicited = how & 1;
	if (how == 0xff)
		q.failure = ROCE_FAILED_HERE;
	if (w->q.head - w->q.tail < RING)
		roce_requester_post(&w->q, &q);
}

static void send_some(struct world *w, uint8_t n)
{
	enum roce_failure failure;
	struct roce_out out;

	while (n-- && roce_requester_next(&w->q, w->now, (uint64_t)n * 512, &out) == ROCE_GO) {
		const struct roce_request *q = &w->ring[out.index % RING];

		check(out.is_local || out.packet.payload_bytes <= MTU);
		check(out.is_local || out.offset + out.packet.payload_bytes <= q->length ||
		      !out.packet.payload_bytes);
	}
	while (!w->q.failure && roce_requester_pop(&w->q, &failure))
		check(!failure);
}

static void answer_some(struct world *w, uint8_t n)
{
	struct roce_answer a;
	unsigned count = 0;

	while (count++ < n && roce_responder_next(&w->r, &a)) {
		check(!a.packet.payload_bytes ||
		      (a.va <= MEMORY && a.packet.payload_bytes <= MEMORY - a.va));
		if (n == 0xfe && a.rkey)
			roce_responder_refuse(&w->r, &a, ROCE_DENIED);
	}
	while (n == 0xff && roce_responder_next(&w->r, &a))
		check(++count < ANSWERS_MAX);
}

static void to_requester(struct world *w, const struct roce_packet *p)
{
	struct roce_placement at;
	enum roce_effect effect;
	const struct roce_request *q;

	effect = roce_requester_receive(&w->q, p, 1000, w->now, &at);
	if (effect != ROCE_PLACE && effect != ROCE_PLACE_ATOMIC)
		return;
	q = &w->ring[at.index % RING];
	if (effect == ROCE_PLACE)
		check(q->kind == ROCE_READ && at.offset + p->payload_bytes <= q->length);
	else
		check(q->kind == ROCE_SWAP || q->kind == ROCE_ADD);
	roce_requester_placed(&w->q, w->now);
}

/* A packet that was understood is written and read again: it is the same. */
static void check_written(const struct roce_packet *p)
{
	uint8_t bytes[ROCE_HEADERS_MAX + 256 + ROCE_ICRC_BYTES + 3] = {0};
	size_t n = roce_packet_encode(p, bytes);
	struct roce_packet again;

	check(n <= ROCE_HEADERS_MAX);
	memcpy(bytes + n, p->payload, p->payload_bytes);
	n += p->payload_bytes + roce_pad_bytes(p->payload_bytes) + ROCE_ICRC_BYTES;
	check(roce_packet_decode(bytes, n, &again));
	check(!memcmp(again.payload, p->payload, p->payload_bytes));
	check(again.opcode == p->opcode && again.psn == p->psn && again.dest_qpn == p->dest_qpn &&
	      again.va == p->va && again.rkey == p->rkey && again.length == p->length &&
	      again.syndrome == p->syndrome && again.msn == p->msn && again.imm == p->imm &&
	      again.invalidate_key == p->invalidate_key && again.original == p->original &&
	      again.compare == p->compare && again.swap_add == p->swap_add &&
	      again.srqn == p->srqn && again.payload_bytes == p->payload_bytes &&
	      again.solicited == p->solicited);
}

static void deliver_packet(struct world *w, enum what what, uint8_t argument, const uint8_t *bytes,
			   size_t n)
{
	uint8_t padded[256 + 4] = {0};
	struct roce_packet p;
	bool is_response;

	memcpy(padded, bytes, n);
	if (!roce_packet_decode(padded, what == RAW ? n : (n + 4) & ~(size_t)3, &p))
		return;
	check(p.payload >= padded && p.payload + p.payload_bytes <= padded + sizeof(padded));
	check_written(&p);
	is_response = roce_traits(p.opcode) & ROCE_IS_RESPONSE;
	if (!(roce_traits(p.opcode) &
	      (w->q.config.is_lossy ? ROCE_IS_UC : ROCE_IS_RC | ROCE_IS_XRC)))
		return;
	if (roce_traits(p.opcode) & ROCE_IS_XRC)
		p.opcode &= ROCE_BASE_OPCODE;
	if (what != RAW)
		p.psn = roce_psn_add(is_response ? w->q.una : w->r.expected,
				     (uint32_t)(int8_t)argument);
	if (w->q.config.is_lossy)
		roce_responder_receive_lossy(&w->r, &p, &host, w);
	else if (is_response)
		to_requester(w, &p);
	else
		roce_responder_receive(&w->r, &p, &host, w);
}

static void step(struct world *w, enum what what, uint8_t argument)
{
	switch (what) {
	case POST:
		post(w, argument);
		break;
	case SEND:
		send_some(w, argument);
		break;
	case ANSWER:
		answer_some(w, argument);
		break;
	case TIME:
		w->now += (uint64_t)argument * argument * 100000;
		roce_requester_tick(&w->q, w->now);
		break;
	case RECEIVE:
		w->n_receives += argument % 4;
		break;
	default:
		if (w->q.acked != w->q.begun)
			roce_requester_fail(&w->q, w->q.acked);
		break;
	}
}

static void open_world(struct world *w, uint8_t how, bool is_lossy)
{
	struct roce_requester_config config = {.is_lossy = is_lossy,
					       .mtu = MTU,
					       .first_psn = how & 1 ? 0xfffffe : 5,
					       .max_rd_atomic = MAX_RD,
					       .retries = how >> 1 & 7,
					       .rnr_retries = how >> 4 & 7,
					       .timeout_ns = how & 0x80 ? 0 : 67108864};

	memset(w, 0, sizeof(*w));
	w->now = 1;
	roce_icrc_init();
	roce_requester_init(&w->q, &config, w->ring, RING - 1);
	roce_responder_init(&w->r, MTU, config.first_psn, how == 0xee ? 0 : MAX_RD, how, w->saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct world worlds[2];

	if (!n)
		return 0;
	open_world(&worlds[0], *data, false);
	open_world(&worlds[1], *data++, true);
	for (n--; n >= 2;) {
		struct world *w = &worlds[data[0] >> 7];
		enum what what = (data[0] & 0x7f) % N_WHAT;
		uint8_t argument = data[1];
		size_t length;

		data += 2;
		n -= 2;
		if (what != TO_RESPONDER && what != TO_REQUESTER && what != RAW) {
			step(w, what, argument);
			check_world(w);
			continue;
		}
		if (!n)
			break;
		length = *data < n - 1 ? *data : n - 1;
		deliver_packet(w, what, argument, data + 1, length);
		check_world(w);
		data += 1 + length;
		n -= 1 + length;
	}
	return 0;
}
