/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests for connections that any machine can forge: they end no connection, take no place for
 * long, and send few packets to others. IBA 12.9.8.3; RFC 4987 has the same of TCP.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "cm_world.h"
#include "softrdma/cm/half_open.h"

static struct world w;

static struct world_conn *active(void)
{
	return &w.hosts[0].conns[0];
}

static struct world_conn *passive(void)
{
	return &w.hosts[1].conns[0];
}

static void count(const struct world_conn *c, enum ib_cm_notice notice, unsigned n)
{
	assert_int_equal(c->n_notices[notice], n);
}

/* ---- in the name of a peer ---- */

/* A request that claims the queue pair of the active side for another connection, as any machine
 * can forge it. Messages that the active side sends meanwhile are not lost. */
static void forge_request(void)
{
	struct mad m = {.type = MAD_REQ, .local_id = 0x7777};
	struct world_flight f = {.at = w.now, .to = 1, .order = w.n_sent};

	m.req.qpn = active()->entry.cm.local_qpn;
	m.req.local_timeout = 20;
	memcpy(m.req.guid, w.hosts[0].guid, sizeof(m.req.guid));
	mad_encode(&m, f.mad);
	w.flights[w.n_flights++] = f;
}

/* ... which ends nothing, however often, because the peer answers for itself. */
static void forged_requests_end_no_connection(void **state)
{
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, FOREVER);
	for (unsigned i = 0; i < 256; i++) {
		forge_request();
		world_run(&w, w.now + (i % 3) * WORLD_MS);
	}
	world_run(&w, FOREVER);
	assert_int_equal(active()->entry.cm.state, IB_CM_ESTABLISHED);
	assert_int_equal(passive()->entry.cm.state, IB_CM_ESTABLISHED);
	count(active(), IB_CM_DOWN, 0);
	count(passive(), IB_CM_DOWN, 0);
	count(passive(), IB_CM_UP, 1);
}

/* The answers may be lost: the peer is asked again, and may disconnect meanwhile. */
static void the_peer_of_a_doubted_connection_may_be_slow(void **state)
{
	for (unsigned lost = 0; lost < 8; lost++) {
		world_init(&w, OWNER_WAITS, OWNER_WAITS);
		world_connect(&w);
		world_run(&w, FOREVER);
		forge_request();
		w.lost_from = w.n_sent;
		world_run(&w, w.now + (uint64_t)lost * 1000 * WORLD_MS);
		assert_int_equal(passive()->entry.cm.state, IB_CM_DOUBTED);
		w.lost_from = UINT32_MAX;
		if (lost % 2)
			w.hosts[0].owner = OWNER_DISCONNECTS;
		active()->act_at = w.now;
		world_run(&w, FOREVER);
		count(passive(), IB_CM_DOWN, lost % 2);
		if (lost % 2)
			assert_int_equal(w.hosts[1].table.n, 0);
		else
			assert_int_equal(passive()->entry.cm.state, IB_CM_ESTABLISHED);
	}
}

/* A peer that is gone altogether says nothing: the old connection ends in bounded time. */
static void a_doubted_connection_of_a_dead_peer_ends(void **state)
{
	uint64_t begin;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, FOREVER);
	w.hosts[0].is_dead = true;
	begin = w.now;
	forge_request();
	world_run(&w, FOREVER);
	assert_int_equal(passive()->entry.cm.state, IB_CM_GONE);
	count(passive(), IB_CM_DOWN, 1);
	assert_true(w.now - begin < 15000 * WORLD_MS);
}

/* The peer whose address a request bears gets few packets for it; but one for each copy. */
static void a_forged_request_has_few_answers(void **state)
{
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, w.now + 2 * WORLD_MS);
	assert_int_equal(passive()->entry.cm.state, IB_CM_REP_SENT);
	ib_cm_limit_repeats(&passive()->entry.cm, 3);
	w.hosts[0].is_dead = true;
	world_run(&w, FOREVER);
	assert_int_equal(w.n_by_type[MAD_REP - MAD_FIRST], 4);
	count(passive(), IB_CM_UNREACHABLE, 1);
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, w.now + 2 * WORLD_MS);
	ib_cm_limit_repeats(&passive()->entry.cm, 0);
	w.faults[0] = (struct world_fault){1, FAULT_DROP};
	w.n_faults = 1;
	world_run(&w, FOREVER);
	assert_int_equal(active()->entry.cm.state, IB_CM_ESTABLISHED);
	assert_int_equal(passive()->entry.cm.state, IB_CM_ESTABLISHED);
}

/* A place is taken back: what was not answered yet may come again and find another one. */
static void a_dropped_request_may_come_again(void **state)
{
	struct ib_cm_result result;

	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	w.hosts[1].think_ns = 20 * WORLD_MS;
	world_connect(&w);
	world_run(&w, w.now + 10 * WORLD_MS);
	assert_int_equal(passive()->entry.cm.state, IB_CM_REQ_RCVD);
	ib_cm_drop(&passive()->entry.cm, w.now, &result);
	assert_false(result.has_mad);
	world_apply(&w, 1, passive(), &result, NULL);
	passive()->act_at = WORLD_NO_ACTION;
	world_run(&w, FOREVER);
	assert_int_equal(active()->entry.cm.state, IB_CM_ESTABLISHED);
	world_init(&w, OWNER_WAITS, OWNER_WAITS);
	world_connect(&w);
	world_run(&w, w.now + 2 * WORLD_MS);
	assert_int_equal(passive()->entry.cm.state, IB_CM_REP_SENT);
	ib_cm_drop(&passive()->entry.cm, w.now, &result);
	assert_true(result.has_mad);
	assert_int_equal(passive()->entry.cm.state, IB_CM_REJECTED);
}

/* ---- in many names ---- */

static struct half_opens half_opens;
static struct half_open requests[4100];

static void address(uint8_t gid[16], unsigned network, unsigned host)
{
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	gid[12] = (uint8_t)(network >> 16);
	gid[13] = (uint8_t)(network >> 8);
	gid[14] = (uint8_t)network;
	gid[15] = (uint8_t)host;
}

static void ask(struct half_open *h, unsigned network, unsigned host)
{
	struct half_open *oldest;
	uint8_t gid[16];

	address(gid, network, host);
	oldest = half_open_add(&half_opens, h, gid);
	if (oldest) {
		assert_int_not_equal(oldest->kind, HALF_OPEN_NOT);
		half_open_remove(&half_opens, oldest);
	}
}

static void start_anew(void)
{
	memset(&half_opens, 0, sizeof(half_opens));
	memset(requests, 0, sizeof(requests));
}

/* However many forged requests come, of whatever networks, a host that answers before a hundred
 * others have asked keeps its place, and the number is bounded. */
static void a_flood_leaves_time_to_answer(void **state)
{
	static const unsigned networks[] = {1, 2, 7, 100, 4000};

	for (unsigned k = 0; k < sizeof(networks) / sizeof(networks[0]); k++) {
		struct half_open honest = {0};

		start_anew();
		for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
			if (i % 1000 == 500)
				ask(&honest, 0x0a0000, 1);
			ask(&requests[i], 0xc00000 + i % networks[k], i % 256);
			if (i % 1000 == 500 + 60) {
				assert_int_equal(honest.kind, HALF_OPEN_STRANGER);
				half_open_remove(&half_opens, &honest);
			}
			assert_true(half_opens.n[HALF_OPEN_STRANGER] <= HALF_OPEN_STRANGERS);
		}
	}
}

static void a_network_takes_the_place_of_no_other(void **state)
{
	start_anew();
	for (unsigned i = 0; i < HALF_OPEN_NETWORK; i++)
		ask(&requests[i], i, 1);
	for (unsigned i = HALF_OPEN_NETWORK; i < 4000; i++)
		ask(&requests[i], 0xc00000, i % 256);
	for (unsigned i = 0; i < HALF_OPEN_NETWORK; i++)
		assert_int_equal(requests[i].kind, HALF_OPEN_STRANGER);
	assert_int_equal(half_opens.n[HALF_OPEN_STRANGER], HALF_OPEN_STRANGERS);
}

static void known_addresses_have_places_of_their_own(void **state)
{
	uint8_t gid[16];

	start_anew();
	address(gid, 0xc00000, 7);
	half_open_know(&half_opens, gid);
	half_open_know(&half_opens, gid);
	assert_int_equal(half_opens.n_known, 1);
	for (unsigned i = 0; i < HALF_OPEN_KNOWN; i++)
		ask(&requests[i], 0xc00000, 7);
	for (unsigned i = HALF_OPEN_KNOWN; i < 4000; i++)
		ask(&requests[i], 0xc00000 + i % 3, i % 2);
	for (unsigned i = 0; i < HALF_OPEN_KNOWN; i++)
		assert_int_equal(requests[i].kind, HALF_OPEN_OF_KNOWN);
	ask(&requests[4000], 0xc00000, 7);
	assert_int_equal(requests[0].kind, HALF_OPEN_NOT);
	assert_int_equal(half_opens.n[HALF_OPEN_OF_KNOWN], HALF_OPEN_KNOWN);
	for (unsigned i = 0; i <= 4000; i++)
		half_open_remove(&half_opens, &requests[i]);
	for (unsigned kind = 0; kind < HALF_OPEN_N_KINDS; kind++)
		assert_null(half_opens.first[kind]);
}

/* ... which a copy of a request passes. */
static void strangers_have_a_rate(void **state)
{
	uint64_t now = 1000 * WORLD_MS;
	uint8_t known[16], gid[16];
	unsigned n = 0;

	start_anew();
	address(known, 1, 1);
	half_open_know(&half_opens, known);
	for (unsigned i = 0; i < 100000; i++, now += WORLD_MS / 10) { /* for ten seconds */
		address(gid, i, 1);
		n += half_open_may_come(&half_opens, gid, 7, now);
		assert_true(half_open_may_come(&half_opens, known, 7, now));
	}
	assert_in_range(n, 10 * HALF_OPEN_RATE, 10 * HALF_OPEN_RATE + HALF_OPEN_STRANGERS + 2);
	address(gid, 1, 2);
	while (half_open_may_come(&half_opens, gid, 7, now))
		; /* the rate is used up */
	assert_true(half_open_may_come(&half_opens, gid, 7, now));
	assert_false(half_open_may_come(&half_opens, gid, 8, now));
	now += 2000 * WORLD_MS; /* in quiet times a burst passes again */
	for (n = 0; half_open_may_come(&half_opens, gid, 1000 + n, now); n++)
		;
	assert_in_range(n, HALF_OPEN_STRANGERS, HALF_OPEN_STRANGERS + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forged_requests_end_no_connection),
		cmocka_unit_test(the_peer_of_a_doubted_connection_may_be_slow),
		cmocka_unit_test(a_doubted_connection_of_a_dead_peer_ends),
		cmocka_unit_test(a_forged_request_has_few_answers),
		cmocka_unit_test(a_dropped_request_may_come_again),
		cmocka_unit_test(a_flood_leaves_time_to_answer),
		cmocka_unit_test(a_network_takes_the_place_of_no_other),
		cmocka_unit_test(known_addresses_have_places_of_their_own),
		cmocka_unit_test(strangers_have_a_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
