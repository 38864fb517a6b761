/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A requester and a responder of RoCE, with a wire between them that loses, repeats and exchanges
 * packets, and a clock that the test moves. Every packet crosses the wire as bytes with its
 * checksum. After each fault, and each pair of faults, all requests complete in order, the data is
 * right, each SEND arrives once and each atomic is executed once (IBA volume 1, chapter 9.7).
 */
#include "softrdma/fabric/roce/requester_answers.h"
#include "softrdma/fabric/roce/responder_answers.h"
#include "roce_world.h"

/* ---- exchanges ------------------------------------------------------------------------------ */

/* The work requests that are posted, and their expected outcome. */
struct exchange {
	const char *name;
	struct roce_request requests[6];
	unsigned n;
};

#define READ_OF(bytes, from)                                                                       \
	{                                                                                          \
		.kind = ROCE_READ, .length = (bytes), .va = (from)                                 \
	}
#define WRITE_OF(bytes, to)                                                                        \
	{                                                                                          \
		.kind = ROCE_WRITE, .length = (bytes), .va = (to)                                  \
	}
#define SEND_OF(bytes)                                                                             \
	{                                                                                          \
		.kind = ROCE_SEND, .length = (bytes)                                               \
	}
#define ADD_TO(at, n)                                                                              \
	{                                                                                          \
		.kind = ROCE_ADD, .length = 8, .va = (at), .swap_add = (n)                         \
	}
#define SWAP_AT(at, old, fresh)                                                                    \
	{                                                                                          \
		.kind = ROCE_SWAP, .length = 8, .va = (at), .compare = (old), .swap_add = (fresh)  \
	}

static const struct exchange exchanges[] = {
	{"a SEND of five packets", {SEND_OF(5 * MTU - 3)}, 1},
	{"five SENDs", {SEND_OF(1), SEND_OF(0), SEND_OF(MTU), SEND_OF(77), SEND_OF(3)}, 5},
	{"a WRITE of five packets", {WRITE_OF(5 * MTU, 4096)}, 1},
	{"a WRITE with immediate",
	 {{.kind = ROCE_WRITE, .length = 3 * MTU + 1, .va = 8192, .has_imm = true, .imm = 42},
	  SEND_OF(10)},
	 2},
	{"a READ of five packets", {READ_OF(5 * MTU - 1, 9000)}, 1},
	{"READs and a SEND", {READ_OF(300, 64), READ_OF(0, 64), SEND_OF(9), READ_OF(2, 64)}, 4},
	{"atomics",
	 {ADD_TO(800, 5), ADD_TO(800, 7), SWAP_AT(800, 12, 99), ADD_TO(800, 1), SEND_OF(1)},
	 5},
	{"a bit of each",
	 {WRITE_OF(MTU + 1, 4096), READ_OF(2 * MTU, 4096), ADD_TO(808, 3), SEND_OF(2 * MTU),
	  READ_OF(1, 4097)},
	 5},
	{"fenced after a READ",
	 {READ_OF(2 * MTU, 512),
	  {.kind = ROCE_LOCAL, .is_fenced = true},
	  {.kind = ROCE_WRITE, .length = 64, .va = 512, .is_fenced = true},
	  SEND_OF(5)},
	 4},
};

static void post_all(struct world *w, const struct exchange *x)
{
	uint64_t zero = 0;

	memcpy(w->theirs + 800, &zero, 8);
	memcpy(w->theirs + 808, &zero, 8);
	for (unsigned i = 0; i < x->n; i++)
		post(w, x->requests[i]);
}

/* The same requests by plain copies. */
static void expect_result(const struct world *w, const struct exchange *x)
{
	struct world *plain = new_world(0);
	uint64_t zero = 0, now, value;
	unsigned received = 0, atomics = 0, locals = 0;

	memcpy(plain->theirs + 800, &zero, 8);
	memcpy(plain->theirs + 808, &zero, 8);
	for (unsigned i = 0; i < x->n; i++) {
		const struct roce_request *q = &x->requests[i];
		const uint8_t *from = plain->mine + SEND_AREA + i * 1000;

		locals += q->kind == ROCE_LOCAL;
		if (q->kind == ROCE_WRITE)
			memcpy(plain->theirs + q->va, from, q->length);
		if (q->kind == ROCE_READ)
			memcpy(plain->mine + READ_AREA + i * 4096, plain->theirs + q->va,
			       q->length);
		if (q->kind == ROCE_SEND) {
			assert_memory_equal(w->inbox + received * RECEIVE_BYTES, from, q->length);
			assert_int_equal(w->received_bytes[received], q->length);
		}
		if (q->has_imm)
			assert_int_equal(w->received_imm[received], q->imm);
		received += q->kind == ROCE_SEND || q->has_imm;
		if (q->kind != ROCE_ADD && q->kind != ROCE_SWAP)
			continue;
		atomics++;
		memcpy(&now, plain->theirs + q->va, 8);
		assert_int_equal(w->originals[i], now);
		value = q->kind == ROCE_ADD ? now + q->swap_add
			: now == q->compare ? q->swap_add
					    : now;
		memcpy(plain->theirs + q->va, &value, 8);
	}
	assert_int_equal(w->failure, ROCE_NO_FAILURE);
	assert_int_equal(w->completed, x->n);
	assert_int_equal(w->n_received, received);
	assert_int_equal(w->n_atomics, atomics);
	assert_int_equal(w->n_local, locals);
	assert_memory_equal(w->theirs, plain->theirs, MEMORY);
	assert_memory_equal(w->mine, plain->mine, MEMORY);
	assert_int_equal(w->q.in_flight, 0);
	assert_int_equal(w->q.n_reads, 0);
	end_world(plain);
}

static const uint32_t psns[] = {0, 0xffffff, 0xfffffd, 0x7ffffe};

#define N_EXCHANGES (sizeof(exchanges) / sizeof(*exchanges))

static unsigned clean_run(const struct exchange *x, uint32_t psn)
{
	struct world *w = new_world(psn);
	unsigned n;

	post_all(w, x);
	run(w);
	expect_result(w, x);
	assert_int_equal(w->q.n_resent, 0);
	assert_int_equal(w->r.n_duplicates + w->r.n_gaps, 0);
	n = w->n_sent;
	end_world(w);
	return n;
}

static void no_fault(void **state)
{
	for (unsigned i = 0; i < N_EXCHANGES; i++)
		for (unsigned k = 0; k < sizeof(psns) / sizeof(*psns); k++)
			assert_true(clean_run(&exchanges[i], psns[k]) >= 2);
}

static void each_fault(void **state)
{
	for (unsigned i = 0; i < N_EXCHANGES; i++)
		for (unsigned k = 0; k < sizeof(psns) / sizeof(*psns); k++) {
			unsigned n = clean_run(&exchanges[i], psns[k]);

			for (unsigned packet = 0; packet < n; packet++)
				for (enum fault f = DROP; f < N_FAULTS; f++) {
					struct world *w = new_world(psns[k]);

					w->faults[0].packet = packet;
					w->faults[0].fault = f;
					w->n_faults = 1;
					post_all(w, &exchanges[i]);
					run(w);
					expect_result(w, &exchanges[i]);
					end_world(w);
				}
		}
}

/* Also faults of what is sent again: packets beyond the clean exchange's. */
static void each_pair_of_faults(void **state)
{
	for (unsigned i = 0; i < N_EXCHANGES; i++) {
		unsigned n = clean_run(&exchanges[i], 0xfffffd) + 4;

		for (unsigned pair = 0; pair < n * n * N_FAULTS * N_FAULTS; pair++) {
			unsigned a = pair % n, b = pair / n % n;
			struct world *w;

			if (a >= b)
				continue;
			w = new_world(0xfffffd);
			w->n_faults = 2;
			w->faults[0].packet = a;
			w->faults[1].packet = b;
			w->faults[0].fault = pair / n / n % N_FAULTS;
			w->faults[1].fault = pair / n / n / N_FAULTS;
			post_all(w, &exchanges[i]);
			run(w);
			expect_result(w, &exchanges[i]);
			end_world(w);
		}
	}
}

/* From each packet on, several in a row are lost. */
static void each_run_of_losses(void **state)
{
	for (unsigned i = 0; i < N_EXCHANGES; i++) {
		unsigned n = clean_run(&exchanges[i], 0xfffffe);

		for (unsigned from = 0; from < n; from++)
			for (unsigned length = 2; length < 8; length++) {
				struct world *w = new_world(0xfffffe);

				w->drop_from = from;
				w->drop_to = from + length;
				post_all(w, &exchanges[i]);
				run(w);
				expect_result(w, &exchanges[i]);
				end_world(w);
			}
	}
}

/* 2 % of each fault, so 10 % in all, and small windows. */
static void random_faults(void **state)
{
	for (unsigned seed = 0; seed < 600; seed++) {
		const struct exchange *x = &exchanges[seed % N_EXCHANGES];
		struct world *w = new_world((uint32_t)seed * 7919);

		w->random = seed % 2 ? 20 : 60;
		w->window = seed % 3 ? 64 << 10 : 600;
		w->seed = seed;
		post_all(w, x);
		run(w);
		expect_result(w, x);
		end_world(w);
	}
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void receiver_not_ready(void **state)
{
	for (unsigned late = 0; late < 6; late++) {
		struct world *w = new_world(0xfffffe);
		const struct exchange *x = &exchanges[1];

		w->n_posted_receives = late;
		post_all(w, x);
		pump_requester(w);
		for (unsigned i = 0; i < 40; i++)
			step(w);
		assert_int_equal(w->completed, late < 5 ? late : 5);
		w->n_posted_receives = RECEIVES;
		run(w);
		expect_result(w, x);
		assert_int_equal(w->r.n_refused > 0, late < 5);
		end_world(w);
	}
}

/* An RNR NAK waits at least as long as the receiver says, and so often as the attribute allows. */
static void rnr_retries(void **state)
{
	for (unsigned allowed = 0; allowed < 7; allowed++) {
		struct world *w = new_world(5);
		uint64_t begin = w->now;

		w->q.config.rnr_retries = allowed;
		w->n_posted_receives = 0;
		post(w, (struct roce_request)SEND_OF(10));
		run(w);
		assert_int_equal(w->failure, ROCE_RNR_RETRIES_OVER);
		assert_int_equal(w->r.n_refused, allowed + 1);
		assert_true(w->now - begin >= allowed * (uint64_t)RNR_NS);
		end_world(w);
	}
}

static void silence(void **state)
{
	for (unsigned retries = 0; retries < 8; retries++) {
		struct world *w = new_world(5);
		uint64_t begin = w->now;

		w->q.config.retries = retries;
		w->drop_to = UINT32_MAX;
		post(w, (struct roce_request)SEND_OF(10));
		run(w);
		assert_int_equal(w->failure, ROCE_RETRIES_OVER);
		assert_int_equal(w->now - begin, (retries + 1) * (uint64_t)TIMEOUT_NS);
		end_world(w);
	}
}

static void expect_failure(struct roce_request bad, enum roce_failure failure, uint8_t nak)
{
	struct world *w = new_world(0xfffffe);

	post(w, (struct roce_request)SEND_OF(10));
	post(w, (struct roce_request)READ_OF(2 * MTU, 0));
	post(w, bad);
	post(w, (struct roce_request)SEND_OF(10));
	run(w);
	assert_int_equal(w->failure, failure);
	assert_int_equal(w->completed, 2);
	assert_int_equal(w->n_received, 1);
	assert_int_equal(w->r.broken, nak);
	end_world(w);
}

static void refusals(void **state)
{
	struct roce_request q = WRITE_OF(3 * MTU, 0);

	q.rkey = 1;
	expect_failure(q, ROCE_REMOTE_ACCESS, ROCE_NAK_ACCESS);
	q = (struct roce_request)READ_OF(MTU, MEMORY - 5);
	expect_failure(q, ROCE_REMOTE_ACCESS, ROCE_NAK_ACCESS);
	q = (struct roce_request)ADD_TO(804, 1); /* not aligned */
	expect_failure(q, ROCE_REMOTE_REQUEST, ROCE_NAK_REQUEST);
	q = (struct roce_request)SEND_OF(RECEIVE_BYTES + 1);
	expect_failure(q, ROCE_REMOTE_REQUEST, ROCE_NAK_REQUEST);
	q = (struct roce_request)SEND_OF(1);
	q.failure = ROCE_FAILED_HERE;
	expect_failure(q, ROCE_FAILED_HERE, 0);
}

/* Packets that no requester may send. */
static uint8_t answer_to(struct roce_packet first, struct roce_packet second)
{
	struct world *w = new_world(100);
	static const uint8_t zeros[ROCE_MTU_MAX + 8];
	uint8_t nak;

	first.psn = 100;
	first.payload = second.payload = zeros;
	roce_responder_receive(&w->r, &first, &world_host, w);
	second.psn = 101;
	if (!w->r.broken)
		roce_responder_receive(&w->r, &second, &world_host, w);
	nak = w->r.broken;
	end_world(w);
	return nak;
}

#define BARE(op, bytes) ((struct roce_packet){.opcode = (op), .payload_bytes = (bytes)})
#define TO(op, bytes, total)                                                                       \
	((struct roce_packet){                                                                     \
		.opcode = (op), .payload_bytes = (bytes), .rkey = KEY, .length = (total)})

static void invalid_requests(void **state)
{
	const struct roce_packet fine = BARE(ROCE_SEND_ONLY, 1);
	const struct {
		struct roce_packet first, second;
		uint8_t nak;
	} rows[] = {
		{fine, fine, 0},
		{BARE(ROCE_SEND_FIRST, MTU), BARE(ROCE_SEND_LAST, 1), 0},
		{BARE(ROCE_SEND_FIRST, MTU), BARE(ROCE_SEND_LAST_INV, 1), 0},
		{TO(ROCE_WRITE_FIRST, MTU, MTU + 1), BARE(ROCE_WRITE_LAST, 1), 0},
		/* order, IBA 9.7.4.1.2 */
		{BARE(ROCE_SEND_MIDDLE, MTU), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_LAST, 1), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_WRITE_MIDDLE, MTU), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_WRITE_LAST, MTU), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_FIRST, MTU), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_FIRST, MTU), BARE(ROCE_WRITE_LAST, 1), ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_FIRST, MTU), TO(ROCE_READ_REQUEST, 0, 8), ROCE_NAK_REQUEST},
		{TO(ROCE_WRITE_FIRST, MTU, 2 * MTU), BARE(ROCE_SEND_LAST, 1), ROCE_NAK_REQUEST},
		/* length, 9.7.4.1.6 */
		{BARE(ROCE_SEND_FIRST, MTU - 1), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_FIRST, MTU + 1), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_ONLY, MTU + 1), fine, ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_FIRST, MTU), BARE(ROCE_SEND_LAST, 0), ROCE_NAK_REQUEST},
		{BARE(ROCE_SEND_FIRST, MTU), BARE(ROCE_SEND_LAST, MTU + 1), ROCE_NAK_REQUEST},
		{TO(ROCE_WRITE_ONLY, 5, 6), fine, ROCE_NAK_REQUEST},
		{TO(ROCE_WRITE_ONLY, 6, 5), fine, ROCE_NAK_REQUEST},
		{TO(ROCE_WRITE_FIRST, MTU, MTU), fine, ROCE_NAK_REQUEST},
		{TO(ROCE_WRITE_FIRST, MTU, MTU + 2), BARE(ROCE_WRITE_LAST, 1), ROCE_NAK_REQUEST},
		{TO(ROCE_WRITE_FIRST, MTU, 0x80000001), fine, ROCE_NAK_REQUEST},
		{TO(ROCE_READ_REQUEST, 0, 0x80000001), fine, ROCE_NAK_REQUEST},
		{TO(ROCE_READ_REQUEST, 0, MEMORY + 1), fine, ROCE_NAK_ACCESS},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (answer_to(rows[i].first, rows[i].second) != rows[i].nak)
			fail_msg("row %u: %x", i, answer_to(rows[i].first, rows[i].second));
}

/* READs without end: beyond what was agreed the responder refuses, and keeps within its ring. */
static void too_many_reads(void **state)
{
	struct world *w = new_world(0);
	struct roce_packet p = TO(ROCE_READ_REQUEST, 0, 8);

	for (unsigned i = 0; i <= 2 * MAX_RD; i++) {
		assert_int_equal(w->r.broken, 0);
		p.psn = i;
		roce_responder_receive(&w->r, &p, &world_host, w);
	}
	assert_int_equal(w->r.broken, ROCE_NAK_REQUEST);
	end_world(w);
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Never more READs and bytes under way than agreed, and a READ of many pieces still one result. */
static void limits_hold(void **state)
{
	struct world *w = new_world(0xfffff0);
	struct roce_out out;
	unsigned n = 0;

	w->q.config.max_rd_atomic = 3;
	for (unsigned i = 0; i < 8; i++)
		post(w, (struct roce_request)READ_OF(1000, 0));
	while (roce_requester_next(&w->q, w->now, 1 << 20, &out) == ROCE_GO)
		n++;
	assert_int_equal(n, 3);
	end_world(w);

	w = new_world(0xfffff0);
	post(w, (struct roce_request)READ_OF(100000, 5));
	assert_int_equal(roce_requester_next(&w->q, w->now, 1, &out), ROCE_GO);
	assert_int_equal(out.packet.length, ROCE_READ_BYTES);
	assert_int_equal(roce_requester_next(&w->q, w->now, 1, &out), ROCE_FULL);
	assert_int_equal(roce_requester_next(&w->q, w->now, 1 << 20, &out), ROCE_GO);
	assert_int_equal(out.packet.va, 5 + ROCE_READ_BYTES);
	assert_int_equal(out.packet.psn, (0xfffff0 + ROCE_READ_BYTES / MTU) & 0xffffff);
	end_world(w);

	w = new_world(0xfffff0);
	memset(w->mine, 0, MEMORY);
	post(w, (struct roce_request)READ_OF(100000, 5));
	w->random = 2;
	run(w);
	assert_int_equal(w->completed, 1);
	assert_memory_equal(w->mine + READ_AREA, w->theirs + 5, 100000);
	end_world(w);
}

/* Responses that answer nothing, forged or late, change nothing. */
static void ghosts(void **state)
{
	struct world *w = new_world(10);
	struct roce_packet p = {.opcode = ROCE_ACK, .syndrome = ROCE_SYNDROME_ACK};
	struct roce_placement at;

	post(w, (struct roce_request)SEND_OF(2 * MTU));
	pump_requester(w);
	for (uint32_t psn = 0; psn < 1u << 24; psn += 1 + (psn & 0xff) * 3) {
		p.psn = psn;
		if (psn == 10 || psn == 11)
			continue;
		p.syndrome = (uint8_t)psn;
		assert_int_equal(roce_requester_receive(&w->q, &p, 1, w->now, &at), ROCE_IGNORED);
	}
	p = (struct roce_packet){.opcode = ROCE_READ_ONLY, .psn = 10};
	assert_int_equal(roce_requester_receive(&w->q, &p, 1, w->now, &at), ROCE_PROGRESS);
	pump_requester(w);
	assert_int_equal(w->failure, ROCE_BAD_RESPONSE);
	end_world(w);
}

static void expect_answers(struct world *w, uint32_t psn, uint32_t srqn)
{
	struct roce_answer a;

	for (uint32_t i = 0; i < 2; i++) {
		assert_true(roce_responder_next(&w->r, &a));
		assert_int_equal(a.packet.psn, psn + i);
		assert_int_equal(a.packet.srqn, srqn);
	}
}

/* XRC: each READ is answered in the domain of the SRQ that it named, whatever others name
 * meanwhile, and one that comes again under another name is none of those. */
static void reads_remember_their_queue(void **state)
{
	struct world *w = new_world(10);
	struct roce_packet first = {.opcode = ROCE_READ_REQUEST,
				    .psn = 10,
				    .rkey = KEY,
				    .va = 64,
				    .length = 2 * MTU,
				    .srqn = 7};
	struct roce_packet second = first;
	struct roce_answer a;

	second.psn = 12;
	second.srqn = 8;
	roce_responder_receive(&w->r, &first, &world_host, w);
	roce_responder_receive(&w->r, &second, &world_host, w);
	expect_answers(w, 10, 7);
	expect_answers(w, 12, 8);
	first.srqn = 8;
	roce_responder_receive(&w->r, &first, &world_host, w);
	assert_false(roce_responder_next(&w->r, &a));
	first.srqn = 7;
	roce_responder_receive(&w->r, &first, &world_host, w);
	expect_answers(w, 10, 7);
	end_world(w);
}

/* IBA 9.7.5.1.4: a READ that comes again asks for what the first one did, or for its end. */
static void repeated_reads_ask_for_the_same(void **state)
{
	struct world *w = new_world(10);
	const struct roce_packet first = {
		.opcode = ROCE_READ_REQUEST, .psn = 10, .rkey = KEY, .va = 64, .length = 2 * MTU};
	struct roce_packet others[4] = {first, first, first, first}, rest = first;
	struct roce_answer a;

	others[0].va += MTU;
	others[1].va -= 8;
	others[2].length += 8;
	others[3].length = 0;
	roce_responder_receive(&w->r, &first, &world_host, w);
	expect_answers(w, 10, 0);
	for (unsigned i = 0; i < 4; i++) {
		roce_responder_receive(&w->r, &others[i], &world_host, w);
		assert_false(roce_responder_next(&w->r, &a));
	}
	rest.psn = 11;
	rest.va += MTU;
	rest.length = MTU;
	roce_responder_receive(&w->r, &rest, &world_host, w);
	assert_true(roce_responder_next(&w->r, &a));
	assert_int_equal(a.packet.psn, 11);
	assert_false(roce_responder_next(&w->r, &a));
	end_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_fault),
		cmocka_unit_test(each_fault),
		cmocka_unit_test(each_pair_of_faults),
		cmocka_unit_test(each_run_of_losses),
		cmocka_unit_test(random_faults),
		cmocka_unit_test(receiver_not_ready),
		cmocka_unit_test(rnr_retries),
		cmocka_unit_test(silence),
		cmocka_unit_test(refusals),
		cmocka_unit_test(invalid_requests),
		cmocka_unit_test(too_many_reads),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(ghosts),
		cmocka_unit_test(reads_remember_their_queue),
		cmocka_unit_test(repeated_reads_ask_for_the_same),
	};

	return cmocka_run_group_tests(tests, world_prepare, NULL);
}
