/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection manager's protocol. Each message of connecting and disconnecting is lost, doubled
 * and delayed, alone and in pairs, and the network dies at each message. IBA 12.9; which event and
 * status each side gets: the kernel's cm.c and cma.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "cm_world.h"

static struct world w;

static struct world_conn *active(void)
{
	return &w.hosts[0].conns[0];
}

static struct world_conn *passive(void)
{
	return &w.hosts[1].conns[0];
}

static void all_is_over(void)
{
	for (unsigned h = 0; h < 2; h++) {
		assert_int_equal(w.hosts[h].table.n, 0);
		for (unsigned i = 0; i < WORLD_MAX_ENTRIES; i++)
			if (w.hosts[h].conns[i].is_used)
				assert_int_equal(w.hosts[h].conns[i].entry.cm.state, IB_CM_GONE);
	}
}

static void count(const struct world_conn *c, enum ib_cm_notice notice, unsigned n)
{
	assert_int_equal(c->n_notices[notice], n);
}

/* The whole life of a connection, whatever the network did to it. */
static void lived_and_ended(void)
{
	all_is_over();
	for (unsigned h = 0; h < 2; h++) {
		const struct world_conn *c = &w.hosts[h].conns[0];

		count(c, IB_CM_RESPONSE, !h);
		assert_true(c->n_notices[IB_CM_UP] <= h);
		count(c, IB_CM_REFUSED, 0);
		count(c, IB_CM_UNREACHABLE, 0);
		count(c, IB_CM_DOWN, 1);
		count(c, IB_CM_TIMEWAIT_OVER, 1);
	}
}

/* ---- the network ---- */

static const struct scenario {
	enum world_owner a, b;
	uint64_t think_a, think_b;
	bool has_data;
} scenarios[] = {
	{OWNER_DISCONNECTS, OWNER_WAITS, WORLD_MS, WORLD_MS, false},
	{OWNER_WAITS, OWNER_DISCONNECTS, WORLD_MS, WORLD_MS, false},
	{OWNER_DISCONNECTS, OWNER_DISCONNECTS, WORLD_MS, WORLD_MS / 2, false}, /* they cross */
	{OWNER_DISCONNECTS, OWNER_DISCONNECTS, 2 * WORLD_MS, WORLD_MS, true},
	{OWNER_DISCONNECTS, OWNER_WAITS, WORLD_MS, 700 * WORLD_MS, true},  /* MRA of the REQ */
	{OWNER_WAITS, OWNER_DISCONNECTS, 700 * WORLD_MS, WORLD_MS, false}, /* MRA of the REP */
	{OWNER_ABANDONS, OWNER_WAITS, 10, 10, true},
	{OWNER_DISCONNECTS, OWNER_ABANDONS, 10, 50 * WORLD_MS, false},
};

#define N_SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

static unsigned run(const struct scenario *s, const struct world_fault *faults, unsigned n)
{
	world_init(&w, s->a, s->b);
	w.hosts[0].think_ns = s->think_a;
	w.hosts[1].think_ns = s->think_b;
	w.has_data = s->has_data;
	w.n_faults = n;
	if (n)
		memcpy(w.faults, faults, n * sizeof(*faults));
	world_connect(&w);
	world_run(&w, FOREVER);
	return w.n_sent;
}

static void a_quiet_network_carries_each_message_once(void **state)
{
	assert_int_equal(run(&scenarios[0], NULL, 0), 5);
	lived_and_ended();
	count(passive(), IB_CM_UP, 1);
	for (enum mad_type t = MAD_REQ; t <= MAD_DREP; t++)
		assert_int_equal(w.n_by_type[t - MAD_FIRST], t != MAD_MRA && t != MAD_REJ);
	assert_int_equal(run(&scenarios[2], NULL, 0), 7); /* two DREQs, two DREPs, RTU */
	lived_and_ended();
}

static void each_message_lost_doubled_or_late(void **state)
{
	for (unsigned s = 0; s < N_SCENARIOS; s++) {
		unsigned n = run(&scenarios[s], NULL, 0);

		lived_and_ended();
		for (unsigned at = 0; at < n + 4; at++)
			for (unsigned kind = 0; kind < FAULT_N_KINDS; kind++) {
				struct world_fault f = {at, (enum world_fault_kind)kind};

				run(&scenarios[s], &f, 1);
				lived_and_ended();
			}
	}
}

static void each_two_messages_lost_doubled_or_late(void **state)
{
	for (unsigned s = 0; s < N_SCENARIOS; s++) {
		unsigned n = run(&scenarios[s], NULL, 0) + 4;

		for (unsigned i = 0; i < n * n * FAULT_N_KINDS * FAULT_N_KINDS; i++) {
			struct world_fault f[2] = {
				{i % n, (enum world_fault_kind)(i / n / n % FAULT_N_KINDS)},
				{i / n % n, (enum world_fault_kind)(i / n / n / FAULT_N_KINDS)}};

			if (f[0].at >= f[1].at)
				continue;
			run(&scenarios[s], f, 2);
			lived_and_ended();
		}
	}
}

/* From one message on all are lost: each side comes to an end in bounded time. */
static void the_network_dies_at_each_message(void **state)
{
	for (unsigned s = 0; s < N_SCENARIOS; s++)
		for (unsigned at = 0; at < 10; at++) {
			world_init(&w, scenarios[s].a, scenarios[s].b);
			w.has_data = scenarios[s].has_data;
			w.lost_from = at;
			world_connect(&w);
			world_run(&w, FOREVER);
			assert_true(w.now < 400000 * WORLD_MS);
			for (unsigned h = 0; h < 2; h++)
				for (unsigned i = 0; i < WORLD_MAX_ENTRIES; i++) {
					struct ib_cm *c = &w.hosts[h].conns[i].entry.cm;

					assert_true(!w.hosts[h].conns[i].is_used ||
						    c->state == IB_CM_GONE ||
						    c->state == IB_CM_ESTABLISHED);
				}
		}
}

/* ---- no answer ---- */

static void a_request_without_answer_ends_unreachable(void **state)
{
	world_init(&w, OWNER_DISCONNECTS, OWNER_WAITS);
	w.hosts[1].is_dead = true;
	world_connect(&w);
	world_run(&w, FOREVER);
	all_is_over();
	count(active(), IB_CM_UNREACHABLE, 1);
	assert_int_equal(active()->last_status, -ETIMEDOUT);
	assert_true(w.now >= 61000 * WORLD_MS && w.now < 63000 * WORLD_MS);
	/* 0, 0.2, 0.6, 1.4, 3, 6.2 s, then each 4.3 s until the 61st; then a REJ, time-out */
	assert_int_equal(w.n_by_type[MAD_REQ - MAD_FIRST], 18);
	assert_int_equal(w.n_by_type[MAD_REJ - MAD_FIRST], 1);
}

static void a_reply_without_answer_ends_unreachable(void **state)
{
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.lost_from = 1; /* the REP and everything after it */
	world_connect(&w);
	world_run(&w, FOREVER);
	all_is_over();
	count(passive(), IB_CM_UNREACHABLE, 1);
	count(active(), IB_CM_UNREACHABLE, 1);
}

/* The limits that a peer names count between one second and the kernel's 61. */
static void limits_of_a_request_are_bounded(void **state)
{
	static const uint8_t timeouts[] = {0, 31};
	static const uint64_t least_ms[] = {1000, 61000};

	for (unsigned i = 0; i < 2; i++) {
		struct mad req = {.type = MAD_REQ,
				  .local_id = 5,
				  .req = {.local_timeout = timeouts[i], .max_retries = 15}};
		uint8_t guid[8] = {1};
		struct ib_cm c;

		ib_cm_init_passive(&c, 9, guid, &req);
		assert_int_equal(c.patience_ns, least_ms[i] * WORLD_MS);
	}
}

static void a_disconnect_without_answer_ends_after_two_seconds(void **state)
{
	uint64_t from;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, FOREVER);
	assert_int_equal(active()->entry.cm.state, IB_CM_ESTABLISHED);
	w.hosts[1].is_dead = true;
	w.hosts[0].owner = OWNER_DISCONNECTS;
	active()->act_at = from = w.now;
	world_run(&w, FOREVER);
	assert_int_equal(active()->entry.cm.state, IB_CM_GONE);
	count(active(), IB_CM_DOWN, 1);
	count(active(), IB_CM_TIMEWAIT_OVER, 1);
	assert_true(w.now - from < 3000 * WORLD_MS);
}

/* ---- reports that a port does not exist ---- */

static unsigned requests(void)
{
	return w.n_by_type[MAD_REQ - MAD_FIRST];
}

/* Until the active side has sent n requests; each gets a report while it has no answer. */
static void refuse_requests(unsigned n)
{
	for (unsigned i = 1; i <= n; i++) {
		while (requests() < i)
			world_run(&w, active()->entry.cm.due_ns);
		ib_cm_on_unreachable(&active()->entry.cm);
		ib_cm_on_unreachable(&active()->entry.cm); /* twice is once */
	}
}

/* Requests at 0, 0.2 and 0.6 s, each refused; the last one waits for its answer until 1.4 s. */
static void a_port_that_does_not_exist_fails_a_request_soon(void **state)
{
	uint64_t begin;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.hosts[1].is_dead = true;
	begin = w.now;
	world_connect(&w);
	refuse_requests(3);
	count(active(), IB_CM_UNREACHABLE, 0);
	world_run(&w, begin + 1399 * WORLD_MS);
	count(active(), IB_CM_UNREACHABLE, 0);
	world_run(&w, begin + 1400 * WORLD_MS);
	count(active(), IB_CM_UNREACHABLE, 1);
	assert_int_equal(active()->last_status, -ECONNREFUSED);
	assert_int_equal(requests(), 3);
	world_run(&w, FOREVER);
	all_is_over();
}

/* Reports are a stranger's as long as there are fewer than requests without an answer can get. */
static void a_few_forged_reports_end_nothing(void **state)
{
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.hosts[1].is_dead = true;
	world_connect(&w);
	refuse_requests(2);
	world_run(&w, FOREVER);
	count(active(), IB_CM_UNREACHABLE, 1);
	assert_int_equal(active()->last_status, -ETIMEDOUT);
}

/* However many reports come first: an answer to any of the three requests wins. */
static void an_answer_wins_over_forged_reports(void **state)
{
	for (unsigned n_lost = 0; n_lost < 3; n_lost++) {
		world_init(&w, OWNER_DISCONNECTS, OWNER_WAITS);
		for (unsigned i = 0; i < 2; i++)
			w.faults[i] = (struct world_fault){i < n_lost ? i : 99, FAULT_DROP};
		w.n_faults = 2;
		world_connect(&w);
		refuse_requests(n_lost + 1);
		world_run(&w, FOREVER);
		lived_and_ended();
	}
}

/* An MRA says that the peer is there; and for what is connected a report is nothing. */
static void reports_count_for_requests_without_an_answer(void **state)
{
	struct mad mra = {.type = MAD_MRA, .mra = {MAD_ANSWERS_REQ, 20}};
	struct ib_cm_result result;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.hosts[1].is_dead = true;
	mra.remote_id = world_connect(&w)->entry.cm.local_id;
	refuse_requests(3);
	ib_cm_on_mad(&active()->entry.cm, w.now, &mra, &result);
	world_run(&w, FOREVER);
	assert_int_equal(active()->last_status, -ETIMEDOUT);
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, FOREVER);
	for (unsigned i = 0; i < 9; i++)
		ib_cm_on_unreachable(&active()->entry.cm);
	world_run(&w, FOREVER);
	assert_int_equal(active()->entry.cm.state, IB_CM_ESTABLISHED);
}

/* ---- rejections ---- */

static void the_passive_side_rejects(void **state)
{
	for (unsigned at = 0; at < 4; at++)
		for (unsigned kind = 0; kind < FAULT_N_KINDS; kind++) {
			struct world_fault f = {at, (enum world_fault_kind)kind};
			struct scenario s = {OWNER_WAITS, OWNER_REJECTS, WORLD_MS, WORLD_MS, false};

			run(&s, &f, 1);
			all_is_over();
			count(active(), IB_CM_REFUSED, 1);
			assert_int_equal(active()->last_status, MAD_REASON_CONSUMER);
			count(active(), IB_CM_RESPONSE, 0);
			count(passive(), IB_CM_REFUSED, 0);
		}
}

static void no_program_listens(void **state)
{
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.hosts[1].is_deaf = true;
	world_connect(&w);
	world_run(&w, FOREVER);
	all_is_over();
	count(active(), IB_CM_REFUSED, 1);
	assert_int_equal(active()->last_status, MAD_REASON_NO_SERVICE);
}

/* rdma_reject on the active side, as a consumer without a queue pair of the id may. */
static void the_active_side_rejects_the_reply(void **state)
{
	struct ib_cm_result result;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.hosts[0].think_ns = 1000 * WORLD_MS;
	world_connect(&w);
	world_run(&w, 10 * WORLD_MS);
	assert_int_equal(
		ib_cm_reject(&active()->entry.cm, w.now, MAD_REASON_CONSUMER, "x", 1, &result), 0);
	world_apply(&w, 0, active(), &result, NULL);
	world_run(&w, FOREVER);
	all_is_over();
	count(passive(), IB_CM_REFUSED, 1);
	assert_int_equal(passive()->last_status, MAD_REASON_CONSUMER);
}

/* The owner leaves while the request is under way: the peer hears of it by its REP at the latest.
 */
static void the_active_side_leaves(void **state)
{
	static const uint64_t moments[] = {10, 1500000, 2500000};

	for (unsigned i = 0; i < 3; i++)
		for (unsigned at = 0; at < 5; at++) {
			struct world_fault f = {at, FAULT_DROP};
			struct scenario s = {OWNER_LEAVES, OWNER_WAITS, moments[i], WORLD_MS,
					     false};

			run(&s, &f, 1);
			all_is_over();
			assert_true(w.now < 10000 * WORLD_MS);
			if (passive()->is_used)
				assert_true(passive()->n_notices[IB_CM_REFUSED] == 1 ||
					    passive()->n_notices[IB_CM_DOWN] == 1);
		}
}

static void the_passive_side_leaves(void **state)
{
	static const uint64_t moments[] = {10, 1500000};

	for (unsigned i = 0; i < 2; i++)
		for (unsigned at = 0; at < 5; at++) {
			struct world_fault f = {at, FAULT_DROP};
			struct scenario s = {OWNER_WAITS, OWNER_LEAVES, WORLD_MS, moments[i],
					     false};

			run(&s, &f, 1);
			all_is_over();
			count(active(), IB_CM_REFUSED, 1);
			assert_int_equal(active()->last_status, MAD_REASON_CONSUMER);
		}
}

/* After the REP, before the RTU: the REJ reaches an active side that takes itself for connected. */
static void the_passive_side_leaves_before_the_rtu(void **state)
{
	for (unsigned n_lost = 0; n_lost < 2; n_lost++) {
		struct ib_cm_result result;

		world_init(&w, OWNER_WAITS, OWNER_WAITS);
		w.faults[0] = (struct world_fault){n_lost ? 2 : 99, FAULT_DROP}; /* the RTU */
		w.n_faults = 1;
		world_connect(&w);
		while (!passive()->is_used || passive()->entry.cm.state != IB_CM_REP_SENT)
			world_run(&w, w.now + WORLD_MS / 2), w.now += WORLD_MS / 2;
		ib_cm_abandon(&passive()->entry.cm, w.now, &result);
		world_apply(&w, 1, passive(), &result, NULL);
		world_run(&w, FOREVER);
		all_is_over();
		count(active(), IB_CM_REFUSED, 1);
	}
}

/* ---- duplicates and strangers ---- */

static void an_owner_that_thinks_long_is_waited_for(void **state)
{
	world_init(&w, OWNER_DISCONNECTS, OWNER_WAITS);
	w.hosts[1].think_ns = 200000 * WORLD_MS; /* beyond every limit without an MRA */
	world_connect(&w);
	world_run(&w, FOREVER);
	lived_and_ended();
	assert_true(w.n_by_type[MAD_MRA - MAD_FIRST] >= 2);
	assert_true(w.n_by_type[MAD_REQ - MAD_FIRST] <= 8);
}

/* A hostile peer that asks for ever more time gets at most 137 s for each MRA. */
static void an_mra_cannot_ask_for_hours(void **state)
{
	struct mad mra = {.type = MAD_MRA, .mra = {MAD_ANSWERS_REQ, 31}};
	struct ib_cm_result result;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.hosts[1].is_dead = true;
	mra.remote_id = world_connect(&w)->entry.cm.local_id;
	ib_cm_on_mad(&active()->entry.cm, w.now, &mra, &result);
	assert_true(active()->entry.cm.due_ns <= w.now + 138000 * WORLD_MS);
	world_run(&w, FOREVER);
	all_is_over();
	assert_true(w.now < 205000 * WORLD_MS);
	/* one for the other message is not heeded */
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	mra.mra.answered = MAD_ANSWERS_REP;
	mra.remote_id = world_connect(&w)->entry.cm.local_id;
	ib_cm_on_mad(&active()->entry.cm, w.now, &mra, &result);
	assert_true(active()->entry.cm.due_ns <= w.now + 200 * WORLD_MS);
}

static void strays_are_answered(void **state)
{
	struct mad m = {.type = MAD_DREQ, .tid = 3, .local_id = 1, .remote_id = 2}, answer;
	uint8_t bytes[MAD_BYTES];

	assert_true(ib_cm_answer_stray(&m, bytes));
	assert_int_equal(mad_decode(bytes, &answer), 0);
	assert_int_equal(answer.type, MAD_DREP);
	assert_int_equal(answer.tid, 3);
	assert_int_equal(answer.local_id, 2);
	assert_int_equal(answer.remote_id, 1);
	m.type = MAD_REP;
	assert_true(ib_cm_answer_stray(&m, bytes));
	assert_int_equal(mad_decode(bytes, &answer), 0);
	assert_int_equal(answer.type, MAD_REJ);
	assert_int_equal(answer.rej.answered, MAD_ANSWERS_REP);
	for (enum mad_type t = MAD_FIRST; t <= MAD_LAST; t++) {
		m.type = t; /* a REJ or a DREP must not be answered: the two would never end */
		assert_int_equal(ib_cm_answer_stray(&m, bytes), t == MAD_DREQ || t == MAD_REP);
	}
}

/* A peer that crashed comes back on the same queue pair: the old connection ends, the new request
 * is refused, and the next attempt succeeds. */
static void a_new_request_ends_the_stale_connection(void **state)
{
	struct world_conn *second;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, FOREVER);
	assert_int_equal(passive()->entry.cm.state, IB_CM_ESTABLISHED);
	ib_cm_table_remove(&w.hosts[0].table, &active()->entry); /* the crash */
	active()->entry.cm.state = IB_CM_GONE;
	w.hosts[0].next_qpn--;
	second = world_connect(&w);
	world_run(&w, FOREVER);
	count(second, IB_CM_REFUSED, 1);
	assert_int_equal(second->last_status, MAD_REASON_STALE);
	count(passive(), IB_CM_DOWN, 1);
	assert_int_equal(passive()->entry.cm.state, IB_CM_GONE);
	w.hosts[0].next_qpn--;
	second = world_connect(&w);
	world_run(&w, FOREVER);
	assert_int_equal(second->entry.cm.state, IB_CM_ESTABLISHED);
}

/* Right after a disconnect the same queue pair may connect again. */
static void a_queue_pair_in_timewait_connects_again(void **state)
{
	struct world_conn *second;

	world_init(&w, OWNER_DISCONNECTS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, w.now + 100 * WORLD_MS);
	assert_int_equal(passive()->entry.cm.state, IB_CM_TIMEWAIT);
	w.hosts[0].next_qpn--;
	w.hosts[0].owner = OWNER_WAITS;
	second = world_connect(&w);
	world_run(&w, FOREVER);
	assert_int_equal(second->entry.cm.state, IB_CM_ESTABLISHED);
}

/* The ids are right, and the addresses are not: it is not this connection's. */
static void mads_from_elsewhere_find_no_connection(void **state)
{
	struct mad m = {.type = MAD_DREQ};
	struct ib_cm_ends ends;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, FOREVER);
	m.remote_id = passive()->entry.cm.local_id;
	m.local_id = passive()->entry.cm.remote_id;
	ends = passive()->entry.ends;
	assert_ptr_equal(ib_cm_table_find(&w.hosts[1].table, &ends, &m), &passive()->entry);
	ends.remote[15] ^= 1;
	assert_null(ib_cm_table_find(&w.hosts[1].table, &ends, &m));
	ends = passive()->entry.ends;
	ends.local[0] ^= 1;
	assert_null(ib_cm_table_find(&w.hosts[1].table, &ends, &m));
}

/* ---- nothing that arrives breaks a machine ---- */

static void bring_to(unsigned state)
{
	static const enum world_owner nothing = OWNER_WAITS;
	struct ib_cm_result result;

	world_init(&w, nothing, nothing);
	if (state == IB_CM_REP_SENT || state == IB_CM_REP_RCVD || state == IB_CM_REQ_RCVD)
		w.lost_from = state == IB_CM_REP_SENT ? 1 : 2;
	if (state == IB_CM_REQ_SENT)
		w.lost_from = 0;
	if (state == IB_CM_REQ_RCVD)
		w.hosts[1].think_ns = FOREVER - 2 * WORLD_MS - 10000000;
	if (state == IB_CM_REP_RCVD)
		w.hosts[0].think_ns = FOREVER - 3 * WORLD_MS - 10000000;
	world_connect(&w);
	world_run(&w, w.now + 20 * WORLD_MS);
	if (state == IB_CM_DOUBTED) {
		ib_cm_doubt(&passive()->entry.cm, w.now, &result);
		return;
	}
	if (state >= IB_CM_DREQ_SENT && state <= IB_CM_TIMEWAIT) {
		w.lost_from = w.n_sent + (state != IB_CM_DREQ_SENT);
		w.hosts[1].think_ns = state == IB_CM_DREQ_RCVD ? 40 * WORLD_MS : WORLD_MS;
		ib_cm_disconnect(&active()->entry.cm, w.now, &result);
		world_apply(&w, 0, active(), &result, NULL);
		world_run(&w, w.now + 20 * WORLD_MS);
	}
	if (state == IB_CM_REJECTED) {
		ib_cm_init(&active()->entry.cm, 77, w.hosts[0].guid);
		active()->entry.cm.state = IB_CM_REQ_SENT;
		ib_cm_abandon(&active()->entry.cm, w.now, &result);
	}
}

/* Every state and every message, with the right ids and with others: the move is in the table (or
 * the test is aborted), no state but GONE is without a way out, and the answer is a MAD. */
static void every_message_in_every_state(void **state)
{
	static const struct {
		unsigned state, host;
	} places[] = {{IB_CM_REQ_SENT, 0}, {IB_CM_REQ_RCVD, 1},	   {IB_CM_REP_SENT, 1},
		      {IB_CM_REP_RCVD, 0}, {IB_CM_ESTABLISHED, 0}, {IB_CM_ESTABLISHED, 1},
		      {IB_CM_DOUBTED, 1},  {IB_CM_DREQ_SENT, 0},   {IB_CM_DREQ_RCVD, 1},
		      {IB_CM_TIMEWAIT, 1}, {IB_CM_REJECTED, 0}};

	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (unsigned k = 0; k < 9 * 2 * 3; k++) {
			struct mad m = {.type = (enum mad_type)(MAD_FIRST + k % 9)}, out;
			struct ib_cm_result result;
			struct ib_cm *c;
			unsigned before;
			uint32_t known;

			bring_to(places[i].state);
			c = &w.hosts[places[i].host].conns[0].entry.cm;
			assert_int_equal(c->state, places[i].state);
			m.remote_id = c->local_id;
			m.local_id = k / 9 % 2 ? c->remote_id + 1 : c->remote_id;
			if (m.type == MAD_MRA || m.type == MAD_REJ)
				m.rej.answered = (uint8_t)(k / 18);
			if (m.type == MAD_DREQ)
				m.dreq.remote_qpn = k / 18 ? c->local_qpn : 0xffffff;
			before = c->state;
			known = c->remote_id;
			ib_cm_on_mad(c, w.now, &m, &result);
			if (c->state != before) {
				assert_true(ib_cm_may_move(before, c->state));
				assert_true(c->due_ns || c->state == IB_CM_ESTABLISHED ||
					    c->state == IB_CM_DREQ_RCVD ||
					    c->state == IB_CM_REP_RCVD || c->state == IB_CM_GONE);
			}
			if (result.has_mad)
				assert_int_equal(mad_decode(result.mad, &out), 0);
			if (k / 9 % 2 && known && m.local_id)
				assert_int_equal(c->state, before);
		}
}

static void calls_in_wrong_states_change_nothing(void **state)
{
	struct ib_cm_result result;
	uint8_t guid[8] = {0};
	struct mad m = {0};
	struct ib_cm c;

	ib_cm_init(&c, 1, guid);
	assert_int_equal(ib_cm_accept(&c, 1, &m, &result), -EINVAL);
	assert_int_equal(ib_cm_establish(&c, &result), -EINVAL);
	assert_int_equal(ib_cm_reject(&c, 1, MAD_REASON_CONSUMER, NULL, 0, &result), -EINVAL);
	assert_int_equal(ib_cm_disconnect(&c, 1, &result), -EINVAL);
	ib_cm_on_data(&c, &result);
	ib_cm_timer(&c, 1, &result);
	assert_false(result.has_mad);
	assert_int_equal(c.state, IB_CM_IDLE);
	assert_int_equal(ib_cm_connect(&c, 1, WORLD_MS, &m, &result), 0);
	assert_int_equal(ib_cm_connect(&c, 1, WORLD_MS, &m, &result), -EINVAL);
	assert_string_equal(ib_cm_state_name(c.state), "req-sent");
	assert_string_equal(ib_cm_state_name(99), "?");
	ib_cm_init(&c, 1, guid);
	ib_cm_abandon(&c, 1, &result);
	assert_int_equal(c.state, IB_CM_GONE);
	c.state = IB_CM_REQ_RCVD;
	assert_int_equal(ib_cm_reject(&c, 1, MAD_REASON_CONSUMER, &m, 149, &result), -EINVAL);
}

/* ---- the table ---- */

static void ids_keep_their_class_and_are_not_used_twice(void **state)
{
	static struct ib_cm_table t;
	static struct ib_cm_entry entries[1000];
	uint8_t guid[8] = {0};

	assert_int_equal(ib_cm_table_id(&t, 0x12345678, 0xf0, 0xa7), 0xa2345678);
	assert_int_equal(ib_cm_table_id(&t, 0x12345678, 0, 0xff), 0x12345678);
	assert_int_equal(ib_cm_table_id(&t, 0, 0xf0, 0), 0);
	for (unsigned i = 0; i < 1000; i++) {
		ib_cm_init(&entries[i].cm, ib_cm_table_id(&t, 1 + i, 0x0f, 3), guid);
		entries[i].cm.remote_id = entries[i].cm.remote_qpn = 1 + i / 2;
		ib_cm_table_add(&t, &entries[i]);
		assert_int_equal(ib_cm_table_id(&t, 1 + i, 0x0f, 3), 0);
	}
	assert_int_equal(t.n, 1000);
	for (unsigned i = 0; i < 1000; i += 2)
		ib_cm_table_remove(&t, &entries[i]);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(!ib_cm_table_id(&t, 1 + i, 0x0f, 3), i % 2);
	for (unsigned i = 0; i < 1000; i++)
		ib_cm_table_remove(&t, &entries[i]); /* twice is once */
	assert_int_equal(t.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quiet_network_carries_each_message_once),
		cmocka_unit_test(each_message_lost_doubled_or_late),
		cmocka_unit_test(each_two_messages_lost_doubled_or_late),
		cmocka_unit_test(the_network_dies_at_each_message),
		cmocka_unit_test(a_request_without_answer_ends_unreachable),
		cmocka_unit_test(a_reply_without_answer_ends_unreachable),
		cmocka_unit_test(limits_of_a_request_are_bounded),
		cmocka_unit_test(a_disconnect_without_answer_ends_after_two_seconds),
		cmocka_unit_test(a_port_that_does_not_exist_fails_a_request_soon),
		cmocka_unit_test(a_few_forged_reports_end_nothing),
		cmocka_unit_test(an_answer_wins_over_forged_reports),
		cmocka_unit_test(reports_count_for_requests_without_an_answer),
		cmocka_unit_test(the_passive_side_rejects),
		cmocka_unit_test(no_program_listens),
		cmocka_unit_test(the_active_side_rejects_the_reply),
		cmocka_unit_test(the_active_side_leaves),
		cmocka_unit_test(the_passive_side_leaves),
		cmocka_unit_test(the_passive_side_leaves_before_the_rtu),
		cmocka_unit_test(an_owner_that_thinks_long_is_waited_for),
		cmocka_unit_test(an_mra_cannot_ask_for_hours),
		cmocka_unit_test(strays_are_answered),
		cmocka_unit_test(a_new_request_ends_the_stale_connection),
		cmocka_unit_test(a_queue_pair_in_timewait_connects_again),
		cmocka_unit_test(mads_from_elsewhere_find_no_connection),
		cmocka_unit_test(every_message_in_every_state),
		cmocka_unit_test(calls_in_wrong_states_change_nothing),
		cmocka_unit_test(ids_keep_their_class_and_are_not_used_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
