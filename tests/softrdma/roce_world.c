/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends and the wire; see roce_world.h. */
#include "softrdma/fabric/roce/host.h"
#include "softrdma/fabric/roce/requester_answers.h"
#include "softrdma/fabric/roce/responder_answers.h"
#include "softrdma/fabric/roce/responder_lossy.h"
#include "roce_world.h"

static const struct roce_ends ends = {{.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
				      {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
				      ROCE_PORT};

/* ---- the responder's host ------------------------------------------------------------------- */

static enum roce_verdict take(void *context)
{
	struct world *w = context;

	return w->n_received < w->n_posted_receives ? ROCE_OK : ROCE_NOT_READY;
}

static enum roce_verdict scatter(void *context, uint32_t offset, const uint8_t *data, uint32_t n)
{
	struct world *w = context;

	if (offset + n > RECEIVE_BYTES)
		return ROCE_INVALID;
	memcpy(w->inbox + (size_t)w->n_received * RECEIVE_BYTES + offset, data, n);
	return ROCE_OK;
}

static enum roce_verdict deliver(void *context, const struct roce_packet *last, bool is_write,
				 uint32_t length)
{
	struct world *w = context;

	assert_true(w->n_received < w->n_posted_receives);
	w->received_bytes[w->n_received] = length;
	w->received_imm[w->n_received++] = last->imm;
	return ROCE_OK;
}

static enum roce_verdict check(void *context, enum roce_access need, uint32_t rkey, uint64_t va,
			       uint32_t length)
{
	return !length || (rkey == KEY && va <= MEMORY && length <= MEMORY - va) ? ROCE_OK
										 : ROCE_DENIED;
}

static enum roce_verdict write_memory(void *context, uint32_t rkey, uint64_t va,
				      const uint8_t *data, uint32_t n)
{
	struct world *w = context;

	assert_int_equal(check(w, ROCE_MAY_WRITE, rkey, va, n), ROCE_OK);
	memcpy(w->theirs + va, data, n);
	return ROCE_OK;
}

static enum roce_verdict atomic(void *context, const struct roce_packet *p, uint64_t *ret)
{
	struct world *w = context;
	uint64_t now;

	memcpy(&now, w->theirs + p->va, 8);
	*ret = now;
	if (p->opcode == ROCE_FETCH_ADD)
		now += p->swap_add;
	else if (now == p->compare)
		now = p->swap_add;
	memcpy(w->theirs + p->va, &now, 8);
	w->n_atomics++;
	return ROCE_OK;
}

const struct roce_host world_host = {take, scatter, deliver, check, write_memory, atomic};

/* ---- the wire ------------------------------------------------------------------------------- */

static uint32_t draw(struct world *w)
{
	w->seed = w->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(w->seed >> 33);
}

static void insert(struct world *w, const struct datagram *d)
{
	unsigned i = w->n_wire++;

	assert_true(w->n_wire < WIRE);
	for (; i && w->wire[i - 1].at > d->at; i--)
		w->wire[i] = w->wire[i - 1];
	w->wire[i] = *d;
}

static void damage(struct world *w, struct datagram *d, enum fault fault)
{
	switch (fault) {
	case DROP:
		return;
	case REPEAT:
		insert(w, d);
		d->at += 1;
		break;
	case EXCHANGE:
		d->at += 3 * RTT_NS / 4;
		break;
	case LATE:
		d->at += ROCE_PROBE_MIN_NS - RTT_NS / 3;
		break;
	default:
		d->bytes[d->n / 2] ^= 0x10;
		break;
	}
	insert(w, d);
}

static void put(struct world *w, struct roce_packet *p, const uint8_t *payload, int to_responder)
{
	struct datagram d = {.at = w->now + RTT_NS / 2, .to_responder = to_responder};
	unsigned number = w->n_sent++;
	uint32_t crc;

	p->dest_qpn = to_responder ? 0x112233 : 0x445566;
	d.n = roce_packet_encode(p, d.bytes);
	if (p->payload_bytes)
		memcpy(d.bytes + d.n, payload, p->payload_bytes);
	d.n += p->payload_bytes + roce_pad_bytes(p->payload_bytes);
	crc = htole32(roce_icrc(&ends, d.bytes, d.n, 0, true));
	memcpy(d.bytes + d.n, &crc, 4);
	d.n += 4;
	if (number >= w->drop_from && number < w->drop_to)
		return;
	for (unsigned i = 0; i < w->n_faults; i++)
		if (w->faults[i].packet == number) {
			damage(w, &d, w->faults[i].fault);
			return;
		}
	if (w->random && draw(w) % 1000 < N_FAULTS * w->random)
		damage(w, &d, draw(w) % N_FAULTS);
	else
		insert(w, &d);
}

/* ---- both ends ------------------------------------------------------------------------------ */

void pump_requester(struct world *w)
{
	enum roce_failure failure;
	struct roce_out out;
	uint64_t room;

	for (;;) {
		const struct roce_request *q;

		room = w->window > w->q.in_flight ? w->window - w->q.in_flight : 0;
		if (roce_requester_next(&w->q, w->now, room, &out) != ROCE_GO)
			break;
		if (out.is_local) {
			w->n_local++;
			continue;
		}
		/* A request's own memory: its data lies at its index. */
		q = &w->ring[out.index % RING];
		assert_true(out.offset + out.packet.payload_bytes <= q->length || !q->length);
		put(w, &out.packet, w->mine + SEND_AREA + out.index * 1000 + out.offset, 1);
	}
	while (roce_requester_pop(&w->q, &failure)) {
		if (failure) {
			w->failure = failure;
			break;
		}
		w->completed++;
	}
}

static void pump_responder(struct world *w)
{
	struct roce_answer a;

	while (roce_responder_next(&w->r, &a))
		put(w, &a.packet, w->theirs + a.va, 0);
}

static void take_response(struct world *w, const struct roce_packet *p)
{
	struct roce_placement at;

	switch (roce_requester_receive(&w->q, p, RNR_NS, w->now, &at)) {
	case ROCE_PLACE:
		memcpy(w->mine + READ_AREA + at.index * 4096 + at.offset, p->payload,
		       p->payload_bytes);
		roce_requester_placed(&w->q, w->now);
		break;
	case ROCE_PLACE_ATOMIC:
		w->originals[at.index] = p->original;
		roce_requester_placed(&w->q, w->now);
		break;
	default:
		break;
	}
}

static void arrive(struct world *w, const struct datagram *d)
{
	struct roce_packet p;
	uint32_t stored;
	uint16_t id;

	memcpy(&stored, d->bytes + d->n - 4, 4);
	if (!roce_icrc_solve(&ends, d->bytes, d->n - 4, le32toh(stored), true, &id) || id)
		return;
	assert_true(roce_packet_decode(d->bytes, d->n, &p));
	assert_int_equal(!(roce_traits(p.opcode) & ROCE_IS_RESPONSE), d->to_responder);
	if (w->q.config.is_lossy) {
		assert_true(d->to_responder && w->n_arrived < WIRE);
		assert_true(roce_traits(p.opcode) & ROCE_IS_UC && !p.ack_request);
		w->arrived[w->n_arrived++] = p.psn;
		roce_responder_receive_lossy(&w->r, &p, &world_host, w);
	} else if (d->to_responder)
		roce_responder_receive(&w->r, &p, &world_host, w);
	else
		take_response(w, &p);
}

/* Packets that arrive at one time arrive as a batch. */
bool step(struct world *w)
{
	uint64_t due = roce_requester_deadline(&w->q), at = w->n_wire ? w->wire[0].at : 0;

	if (!at && !due)
		return false;
	if (at && (!due || at <= due)) {
		w->now = at > w->now ? at : w->now;
		while (w->n_wire && w->wire[0].at <= w->now) {
			struct datagram d = w->wire[0];

			memmove(w->wire, w->wire + 1, --w->n_wire * sizeof(*w->wire));
			arrive(w, &d);
		}
	} else {
		w->now = due > w->now ? due : w->now;
		roce_requester_tick(&w->q, w->now);
	}
	pump_responder(w);
	pump_requester(w);
	return true;
}

/* Large, and many in a row: they are used again. */
static struct world worlds[WORLDS], *free_worlds[WORLDS];
static unsigned n_free;
static uint8_t pattern_mine[MEMORY], pattern_theirs[MEMORY];

int world_prepare(void **state)
{
	roce_icrc_init();
	for (unsigned i = 0; i < MEMORY; i++) {
		pattern_mine[i] = (uint8_t)(i * 31 + i / 251);
		pattern_theirs[i] = (uint8_t)(i * 17 + i / 241);
	}
	for (; n_free < WORLDS; n_free++)
		free_worlds[n_free] = &worlds[n_free];
	return 0;
}

struct world *new_world(uint32_t psn)
{
	struct world *w = free_worlds[--n_free];
	struct roce_requester_config config = {.mtu = MTU,
					       .first_psn = psn,
					       .max_rd_atomic = MAX_RD,
					       .retries = 7,
					       .rnr_retries = ROCE_RETRY_FOREVER,
					       .timeout_ns = TIMEOUT_NS};

	memset(w, 0, offsetof(struct world, wire));
	memcpy(w->mine, pattern_mine, MEMORY);
	memcpy(w->theirs, pattern_theirs, MEMORY);
	w->now = 1000000;
	w->seed = psn + 7;
	w->window = 64 << 10;
	w->n_posted_receives = RECEIVES;
	roce_requester_init(&w->q, &config, w->ring, RING - 1);
	roce_responder_init(&w->r, MTU, psn, MAX_RD, 12, w->saved);
	return w;
}

void end_world(struct world *w)
{
	free_worlds[n_free++] = w;
}

void make_lossy(struct world *w)
{
	w->q.config.is_lossy = true;
}

void post(struct world *w, struct roce_request q)
{
	q.rkey = q.rkey ? q.rkey : KEY;
	roce_requester_post(&w->q, &q);
	w->n_wr++;
}

void run(struct world *w)
{
	uint64_t limit = w->now + 600000000000ULL;

	pump_requester(w);
	while (!w->failure && (w->completed < w->n_wr || w->n_wire) && w->now < limit)
		if (!step(w))
			break;
}
