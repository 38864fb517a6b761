/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unreliable connections (UC) of RoCE over a wire that loses, repeats, exchanges and damages
 * packets. A message arrives if all of its packets arrive one after the other, with nothing in
 * between, as often as they do so; any other leaves no trace but in the memory that it names. The
 * requester completes all of them, and nothing is ever answered (IBA volume 1, chapter 9.8).
 */
#include "roce_world.h"

#include "softrdma/fabric/roce/host.h"
#include "softrdma/fabric/roce/pace.h"
#include "softrdma/fabric/roce/requester_answers.h"
#include "softrdma/fabric/roce/responder_lossy.h"
#include "softrdma/fabric/roce/window.h"

#define SEND_OF(bytes)                                                                             \
	{                                                                                          \
		.kind = ROCE_SEND, .length = (bytes)                                               \
	}
#define WRITE_OF(bytes, to)                                                                        \
	{                                                                                          \
		.kind = ROCE_WRITE, .length = (bytes), .va = (to)                                  \
	}

/* Each message has a length of its own, so what arrives tells which one it is. */
static const struct roce_request messages[] = {
	SEND_OF(3 * MTU - 3),
	SEND_OF(1),
	{.kind = ROCE_WRITE, .length = 2 * MTU + 1, .va = 8192, .has_imm = true, .imm = 42},
	SEND_OF(0),
	WRITE_OF(2 * MTU, 4096),
	{.kind = ROCE_SEND, .length = 77, .has_imm = true, .imm = 43},
	{.kind = ROCE_WRITE, .length = 5, .va = 300, .has_imm = true, .imm = 44},
};

#define N (sizeof(messages) / sizeof(*messages))

static const uint32_t psns[] = {0, 0xffffff, 0xfffffd, 0x7ffffe};

static struct world *start(uint32_t psn)
{
	struct world *w = new_world(psn);

	make_lossy(w);
	for (unsigned i = 0; i < N; i++)
		post(w, messages[i]);
	return w;
}

static unsigned packets_of(const struct roce_request *q)
{
	return roce_n_packets(q->length, MTU);
}

/* Whether all packets of a message, whose first one is `first`, arrived in a row from place on. */
static bool is_whole(const struct world *w, unsigned place, uint32_t first, unsigned n)
{
	if (n > w->n_arrived - place)
		return false;
	for (unsigned i = 0; i < n; i++)
		if (w->arrived[place + i] != roce_psn_add(first, i))
			return false;
	return true;
}

static void expect_received(const struct world *w, unsigned number, unsigned message)
{
	const struct roce_request *q = &messages[message];

	assert_true(number < w->n_received);
	assert_int_equal(w->received_bytes[number], q->length);
	if (q->has_imm)
		assert_int_equal(w->received_imm[number], q->imm);
	if (q->kind == ROCE_SEND)
		assert_memory_equal(w->inbox + (size_t)number * RECEIVE_BYTES,
				    w->mine + SEND_AREA + message * 1000, q->length);
}

static void expect_result(const struct world *w, uint32_t psn)
{
	unsigned received = 0;

	for (unsigned place = 0; place < w->n_arrived; place++) {
		uint32_t first = psn;

		for (unsigned i = 0; i < N; i++) {
			const struct roce_request *q = &messages[i];

			if (w->arrived[place] == first &&
			    is_whole(w, place, first, packets_of(q))) {
				if (q->kind == ROCE_SEND || q->has_imm)
					expect_received(w, received++, i);
				if (q->kind == ROCE_WRITE)
					assert_memory_equal(w->theirs + q->va,
							    w->mine + SEND_AREA + i * 1000,
							    q->length);
			}
			first = roce_psn_add(first, packets_of(q));
		}
	}
	assert_int_equal(w->n_received, received);
	assert_int_equal(w->completed, N);
	assert_int_equal(w->failure, ROCE_NO_FAILURE);
	assert_int_equal(w->r.broken, 0);
	assert_false(w->r.n_owed || w->r.owes_answer);
	assert_int_equal(roce_requester_deadline(&w->q), 0);
}

static unsigned clean_run(uint32_t psn)
{
	struct world *w = start(psn);
	unsigned n;

	run(w);
	expect_result(w, psn);
	assert_int_equal(w->n_received, N - 1); /* one is a WRITE without immediate */
	assert_int_equal(w->r.n_gaps + w->r.n_dropped, 0);
	n = w->n_sent;
	assert_int_equal(n, 3 + 1 + 3 + 1 + 2 + 1 + 1);
	end_world(w);
	return n;
}

static void no_fault(void **state)
{
	for (unsigned k = 0; k < sizeof(psns) / sizeof(*psns); k++)
		clean_run(psns[k]);
}

static void each_fault(void **state)
{
	for (unsigned k = 0; k < sizeof(psns) / sizeof(*psns); k++)
		for (unsigned i = 0, n = clean_run(psns[k]); i < n * N_FAULTS; i++) {
			struct world *w = start(psns[k]);

			w->faults[0].packet = i / N_FAULTS;
			w->faults[0].fault = i % N_FAULTS;
			w->n_faults = 1;
			run(w);
			expect_result(w, psns[k]);
			end_world(w);
		}
}

static void each_pair_of_faults(void **state)
{
	unsigned n = clean_run(0xfffffd);

	for (unsigned pair = 0; pair < n * n * N_FAULTS * N_FAULTS; pair++) {
		struct world *w;

		if (pair % n >= pair / n % n)
			continue;
		w = start(0xfffffd);
		w->n_faults = 2;
		w->faults[0].packet = pair % n;
		w->faults[1].packet = pair / n % n;
		w->faults[0].fault = pair / n / n % N_FAULTS;
		w->faults[1].fault = pair / n / n / N_FAULTS;
		run(w);
		expect_result(w, 0xfffffd);
		end_world(w);
	}
}

/* One lost packet costs its own message, and no other. */
static void a_loss_costs_one_message(void **state)
{
	unsigned first = 0;

	for (unsigned i = 0; i < N; i++)
		for (unsigned k = packets_of(&messages[i]); k; k--, first++) {
			struct world *w = start(5);

			w->drop_from = first;
			w->drop_to = first + 1;
			run(w);
			expect_result(w, 5);
			assert_int_equal(w->n_received, N - 1 - (i != 4));
			end_world(w);
		}
}

static void random_faults(void **state)
{
	for (unsigned seed = 0; seed < 3000; seed++) {
		struct world *w = start(seed * 7919);

		w->random = seed % 2 ? 20 : 100;
		w->seed = seed;
		run(w);
		expect_result(w, (seed * 7919) & 0xffffff);
		end_world(w);
	}
}

/* ---- what is dropped ------------------------------------------------------------------------ */

/* IBA 9.8.2.2: a message without a receive, or longer than it, is dropped; the receive stays. */
static void receiver_not_ready(void **state)
{
	struct world *w = new_world(9);

	make_lossy(w);
	w->n_posted_receives = 0;
	post(w, (struct roce_request)SEND_OF(2 * MTU));
	run(w);
	assert_int_equal(w->completed, 1);
	assert_int_equal(w->n_received, 0);
	w->n_posted_receives = 1;
	post(w, (struct roce_request)SEND_OF(RECEIVE_BYTES + 1));
	post(w, (struct roce_request)SEND_OF(3));
	run(w);
	assert_int_equal(w->completed, 3);
	assert_int_equal(w->n_received, 1);
	assert_int_equal(w->received_bytes[0], 3);
	assert_int_equal(w->r.n_dropped, 2);
	end_world(w);
}

static void keys_are_checked(void **state)
{
	struct world *w = new_world(9);
	uint8_t before[4 * MTU];

	make_lossy(w);
	memcpy(before, w->theirs, sizeof(before));
	post(w, (struct roce_request){.kind = ROCE_WRITE, .length = 3 * MTU, .rkey = 1});
	post(w, (struct roce_request){.kind = ROCE_WRITE, .length = 20, .va = MEMORY - 19});
	post(w, (struct roce_request)SEND_OF(3));
	run(w);
	assert_int_equal(w->completed, 3);
	assert_int_equal(w->failure, ROCE_NO_FAILURE);
	assert_int_equal(w->n_received, 1);
	assert_memory_equal(before, w->theirs, sizeof(before));
	assert_int_equal(w->r.broken, 0);
	end_world(w);
}

/* A packet from a peer that may send anything. Returns how many receives have completed. */
static unsigned give(struct world *w, uint8_t opcode, uint32_t psn, uint32_t bytes, uint32_t length)
{
	static const uint8_t zeros[2 * MTU];
	struct roce_packet p = {.opcode = opcode,
				.psn = psn,
				.rkey = KEY,
				.length = length,
				.payload = zeros,
				.payload_bytes = bytes};

	roce_responder_receive_lossy(&w->r, &p, &world_host, w);
	assert_false(w->r.n_owed || w->r.owes_answer);
	return w->n_received;
}

static void wrong_packets(void **state)
{
	struct world *w = new_world(100);

	/* the middle and the end of nothing */
	assert_int_equal(give(w, ROCE_UC_SEND_MIDDLE, 100, MTU, 0), 0);
	assert_int_equal(give(w, ROCE_UC_SEND_LAST, 101, 1, 0), 0);
	assert_int_equal(give(w, ROCE_UC_WRITE_LAST_IMM, 102, 1, 0), 0);
	/* not full, too full, and an empty last one */
	assert_int_equal(give(w, ROCE_UC_SEND_FIRST, 103, MTU - 4, 0), 0);
	assert_int_equal(give(w, ROCE_UC_SEND_LAST, 104, 1, 0), 0);
	assert_int_equal(give(w, ROCE_UC_SEND_ONLY, 105, MTU + 4, 0), 0);
	give(w, ROCE_UC_SEND_FIRST, 106, MTU, 0);
	assert_int_equal(give(w, ROCE_UC_SEND_LAST, 107, 0, 0), 0);
	/* a WRITE that ends as a SEND, and too early, and too late */
	give(w, ROCE_UC_WRITE_FIRST, 108, MTU, 2 * MTU);
	assert_int_equal(give(w, ROCE_UC_SEND_LAST, 109, MTU, 0), 0);
	give(w, ROCE_UC_WRITE_FIRST, 110, MTU, 3 * MTU);
	assert_int_equal(give(w, ROCE_UC_WRITE_LAST_IMM, 111, MTU, 0), 0);
	give(w, ROCE_UC_WRITE_FIRST, 112, MTU, MTU + 1);
	assert_int_equal(give(w, ROCE_UC_WRITE_MIDDLE, 113, MTU, 0), 0);
	assert_int_equal(give(w, ROCE_UC_WRITE_ONLY_IMM, 114, 4, 0x80000001), 0);
	/* a beginning within a message begins anew */
	give(w, ROCE_UC_SEND_FIRST, 115, MTU, 0);
	assert_int_equal(give(w, ROCE_UC_SEND_ONLY, 116, 9, 0), 1);
	assert_int_equal(w->received_bytes[0], 9);
	assert_int_equal(w->r.n_gaps, 0);
	/* any number begins a message, also an old one */
	assert_int_equal(give(w, ROCE_UC_SEND_ONLY, 7, 8, 0), 2);
	assert_int_equal(w->r.n_gaps, 1);
	assert_int_equal(w->r.broken, 0);
	end_world(w);
}

static enum roce_verdict broken_scatter(void *context, uint32_t offset, const uint8_t *data,
					uint32_t n)
{
	return ROCE_BROKEN;
}

/* A receive that is no memory of its owner ends the queue pair: no answer, nothing more. */
static void broken_receive(void **state)
{
	struct world *w = new_world(100);
	struct roce_host host = world_host;
	struct roce_packet p = {.opcode = ROCE_UC_SEND_ONLY, .psn = 100, .payload_bytes = 4};

	p.payload = w->mine;
	host.scatter = broken_scatter;
	roce_responder_receive_lossy(&w->r, &p, &host, w);
	assert_int_equal(w->r.broken, ROCE_NAK_OPERATION);
	assert_false(w->r.owes_answer);
	assert_int_equal(give(w, ROCE_UC_SEND_ONLY, 101, 4, 0), 0);
	end_world(w);
}

/* ---- the requester -------------------------------------------------------------------------- */

/* The number of bytes that may leave now binds, from the first packet on. */
static void room_holds(void **state)
{
	struct world *w = new_world(0xfffffe);
	struct roce_out out;
	unsigned n = 0;

	make_lossy(w);
	post(w, (struct roce_request)SEND_OF(3 * MTU));
	assert_int_equal(roce_requester_next(&w->q, w->now, MTU, &out), ROCE_FULL);
	while (roce_requester_next(&w->q, w->now, MTU + ROCE_PACKET_COST, &out) == ROCE_GO) {
		assert_int_equal(out.offset, n * MTU);
		assert_int_equal(out.packet.psn, roce_psn_add(0xfffffe, n));
		n++;
	}
	assert_int_equal(n, 3);
	end_world(w);
}

/* A burst, then a byte a nanosecond; a long pause gives one burst back, and no more. */
static void pace_holds(void **state)
{
	struct roce_pace p = {0};
	uint64_t now = 1000000000;

	assert_int_equal(roce_pace_room(&p, now), ROCE_PACE_BURST);
	roce_pace_spend(&p, ROCE_PACE_BURST + 500);
	assert_int_equal(roce_pace_room(&p, now), 0);
	assert_int_equal(roce_pace_room(&p, now += 500), 0);
	assert_int_equal(roce_pace_room(&p, now += 700), 700);
	roce_pace_spend(&p, 700);
	assert_int_equal(roce_pace_room(&p, now += ROCE_PACE_BURST * 10ULL), ROCE_PACE_BURST);
}

/* The caller may fail a request when its packet is gone already, also the last one of it. */
static void fails_here(void **state)
{
	for (unsigned packet = 0; packet < 3; packet++) {
		struct world *w = new_world(3);
		enum roce_failure failure = ROCE_NO_FAILURE;
		struct roce_out out;

		make_lossy(w);
		post(w, (struct roce_request)SEND_OF(1));
		post(w, (struct roce_request)SEND_OF(3 * MTU));
		post(w, (struct roce_request)SEND_OF(1));
		for (unsigned i = 0; i < 2 + packet; i++)
			assert_int_equal(roce_requester_next(&w->q, w->now, MEMORY, &out), ROCE_GO);
		roce_requester_fail(&w->q, out.index);
		assert_int_equal(roce_requester_next(&w->q, w->now, MEMORY, &out), ROCE_WAITS);
		assert_true(roce_requester_pop(&w->q, &failure));
		assert_int_equal(failure, ROCE_NO_FAILURE);
		assert_true(roce_requester_pop(&w->q, &failure));
		assert_int_equal(failure, ROCE_FAILED_HERE);
		end_world(w);
	}
}

/* A congestion notification (CNP) has no number, so any host can forge it: however many come, the
 * window is halved ten times a second, and has grown in between. IBA annex A17.9.3. */
static void notifications_have_a_rate(void **state)
{
	const uint64_t ms = 1000000;
	struct roce_window w;

	roce_window_init(&w);
	for (uint64_t now = ms; now <= 1000 * ms; now += ms / 10) {
		roce_window_notify(&w, now, ms / 20);
		roce_window_sent(&w, 4096);
		roce_window_acked(&w, 4096);
	}
	assert_in_range(w.n_cuts, 9, 11);
	assert_true(w.size > 2 * ROCE_WINDOW_MIN);
	roce_window_cut(&w, 2000 * ms, ms / 20); /* a loss counts as ever */
	roce_window_cut(&w, 2001 * ms, ms / 20);
	assert_in_range(w.n_cuts, 11, 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_fault),
		cmocka_unit_test(each_fault),
		cmocka_unit_test(each_pair_of_faults),
		cmocka_unit_test(a_loss_costs_one_message),
		cmocka_unit_test(random_faults),
		cmocka_unit_test(receiver_not_ready),
		cmocka_unit_test(keys_are_checked),
		cmocka_unit_test(wrong_packets),
		cmocka_unit_test(broken_receive),
		cmocka_unit_test(room_holds),
		cmocka_unit_test(pace_holds),
		cmocka_unit_test(notifications_have_a_rate),
		cmocka_unit_test(fails_here),
	};

	return cmocka_run_group_tests(tests, world_prepare, NULL);
}
