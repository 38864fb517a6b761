/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile hosts against a whole rblkd: connecting. Connect requests (rule R1 of the security
 * model), limits (R8), the Connect command, commands in the wrong order. After each, all of the
 * host's resources are freed and the next good host connects quickly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"

/* ---- R1: connect requests -------------------------------------------------------------------- */

static int try_request(const void *bytes, uint8_t n, uint8_t responder_resources)
{
	struct raw_queue q;
	int status = raw_open_bytes(&q, d.port, bytes, n, responder_resources);

	raw_close(&q);
	return status;
}

/* An InfiniBand CM pads private data with zeroes; other CMs report its exact length. */
static void r1_connect_requests(void **state)
{
	static const struct {
		struct nvmf_cm_req req;
		int status;
		uint8_t resources;
	} cases[] = {
		{{.recfmt = {{1}}, .hrqsize = {{32}}, .hsqsize = {{31}}},
		 NVMF_CM_INVALID_RECFMT,
		 16},
		{{.hrqsize = {{32}}, .hsqsize = {{32}}}, NVMF_CM_INVALID_HSQSIZE, 16},
		{{.hrqsize = {{32}}, .hsqsize = {{0}}}, NVMF_CM_INVALID_HSQSIZE, 16},
		{{.hrqsize = {{0}}, .hsqsize = {{31}}}, NVMF_CM_INVALID_HRQSIZE, 16},
		{{{{0}}, {{1}}, {{128}}, {{128}}}, NVMF_CM_INVALID_HSQSIZE, 16},
		{{{{0}}, {{1}}, {{255, 255}}, {{255, 255}}}, NVMF_CM_INVALID_HSQSIZE, 16},
		{{.hrqsize = {{32}}, .hsqsize = {{31}}}, NVMF_CM_INVALID_IRD, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(try_request(&cases[i].req, 32, cases[i].resources),
				 cases[i].status);
}

/* Shorter than the request. InfiniBand's private data has one length, so the rest is zero. */
static void r1_short_requests(void **state)
{
	static const struct nvmf_cm_req req = {.hrqsize = {{32}}, .hsqsize = {{31}}};
	const char *like = getenv("SOFTRDMA_LIKE");
	bool is_iwarp = like && !strcmp(like, "siw");

	for (uint8_t n = 0; n < sizeof(req); n++) {
		int status = try_request(&req, n, 16);

		if (is_iwarp)
			assert_int_equal(status, NVMF_CM_INVALID_LENGTH);
		else if (n <= offsetof(struct nvmf_cm_req, hsqsize))
			assert_int_equal(status, NVMF_CM_INVALID_HSQSIZE);
		else
			assert_int_equal(status, 0);
		daemon_wait_empty(&d);
	}
}

/* ---- R8: limits ------------------------------------------------------------------------------ */

/* Opens an admin queue and sends its Connect. */
static enum nvme_status connect_admin(struct raw_queue *q, uint16_t port, struct nvme_cqe *ret_cqe)
{
	struct raw_connect c;

	assert_int_equal(raw_open(q, port, 0, 32), 0);
	raw_connect_init(&c, q, 0, 31, NVMF_CNTLID_DYNAMIC);
	return raw_connect(q, &c, ret_cqe);
}

struct crowd {
	const char *limits; /* of a rblkd of its own, for they would disturb others; NULL: none */
	unsigned n, n_admitted;
	enum nvme_status busy; /* the others' Connect gets this; 0: no queue sends a Connect */
	bool is_refused;       /* the others get no connection */
	bool are_dropped;      /* those that send nothing, after connect_timeout */
	const char *hint;      /* in the log; another address is admitted then */
};

/* n queues, one after the other: some are admitted, and no others. */
static void crowd(void **state)
{
	const struct crowd *row = *state;
	struct raw_queue queues[32] = {0}, other;
	struct nvme_cqe cqe;
	struct daemon own, *at = row->limits ? &own : &d;

	if (row->limits)
		daemon_start_limited(&own, "", row->limits);
	for (unsigned i = 0; i < row->n; i++) {
		bool is_admitted = i < row->n_admitted;

		if (row->busy && (is_admitted || !row->is_refused))
			assert_int_equal(connect_admin(&queues[i], at->port, &cqe),
					 is_admitted ? NVME_OK : row->busy);
		else
			assert_int_equal(raw_open(&queues[i], at->port, 0, 32),
					 is_admitted ? 0 : NVMF_CM_NO_RESOURCES);
	}
	if (row->hint) {
		daemon_wait_logged(at, row->hint);
		raw_come_from(2);
		assert_int_equal(raw_open(&other, at->port, 0, 32), 0);
		raw_come_from(0);
		raw_close(&other);
	}
	for (unsigned i = 0; row->are_dropped && i < row->n_admitted; i++)
		assert_true(raw_is_dropped(&queues[i]));
	for (unsigned i = 0; i < row->n; i++)
		raw_close(&queues[i]);
	daemon_wait_empty(at);
	if (row->limits)
		daemon_stop(&own);
}

struct burst {
	const char *limits;
	unsigned n, n_passed; /* that many at least pass, and then one a second */
	const char *hint;     /* in the log */
	unsigned n_others;    /* of another address, which all pass */
};

static unsigned connect_and_leave(const struct daemon *at, unsigned n)
{
	unsigned n_passed = 0;
	struct raw_queue q;

	for (unsigned i = 0; i < n; i++) {
		int r = raw_open(&q, at->port, 0, 32);

		assert_true(r == 0 || r == NVMF_CM_NO_RESOURCES);
		n_passed += r == 0;
		raw_close(&q);
		daemon_wait_empty(at);
	}
	return n_passed;
}

static void burst(void **state)
{
	const struct burst *row = *state;
	unsigned n_passed;
	struct daemon own;

	daemon_start_limited(&own, "", row->limits);
	n_passed = connect_and_leave(&own, row->n);
	assert_true(n_passed >= row->n_passed && n_passed < row->n);
	daemon_wait_logged(&own, row->hint);
	raw_come_from(2);
	assert_int_equal(connect_and_leave(&own, row->n_others), row->n_others);
	raw_come_from(0);
	daemon_stop(&own);
}

/* ---- Connect --------------------------------------------------------------------------------- */

/* A Connect with a damaged field, and its answer, which does not want it again (DNR). */
struct damage {
	size_t at;	 /* in struct raw_connect */
	uint32_t result; /* dword 0 of an answer that names a field */
	enum nvme_status status;
	const char *bytes; /* the field begins with them */
	size_t n_bytes;
	size_t n_filled; /* before, the field gets as many of that letter */
	char fill;
	uint16_t qid;
};

#define RESULT(field) offsetof(struct nvmf_connect_data, field) | NVMF_CONNECT_IATTR_DATA
#define DATA(field)   offsetof(struct raw_connect, data.field), RESULT(field)
#define CMD(f)	      offsetof(struct raw_connect, cmd.f), offsetof(struct nvmf_connect_cmd, f)
#define PARAM	      NVME_CONNECT_INVALID_PARAM
#define HOST	      NVME_CONNECT_INVALID_HOST
#define BYTES(bytes)  bytes, sizeof(bytes) - 1
#define TEXT(text)    text, sizeof(text)

static void expect_connect(const struct damage *row, uint16_t cntlid)
{
	bool names_field = row->status == PARAM || row->status == HOST;
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;
	char *field = (char *)&c + row->at;

	assert_int_equal(raw_open(&q, d.port, row->qid, 32), 0);
	raw_connect_init(&c, &q, row->qid, 31, cntlid);
	memset(field, row->fill, row->n_filled);
	memcpy(field, row->bytes, row->n_bytes);
	assert_int_equal(raw_connect(&q, &c, &cqe), row->status | NVME_DNR);
	assert_int_equal(get_le32(cqe.dw0), names_field ? row->result : 0);
	assert_int_equal(get_le32(cqe.dw1), 0);
	raw_close(&q);
	if (!row->qid)
		daemon_wait_empty(&d); /* frees the place of a connection before Connect */
}

static void expect_connects(const struct damage *rows, uint16_t cntlid)
{
	for (; rows->status; rows++)
		expect_connect(rows, cntlid);
}

/* 223 bytes are a name, 224 are none. The allowed host's NQN, except for one letter's case. */
static const struct damage names[] = {
	{DATA(subnqn), PARAM, BYTES("nqn.2026-01.org:"), 223, 'x'},
	{DATA(subnqn), PARAM, BYTES("nqn.2026-01.org:"), 224, 'x'},
	{DATA(hostnqn), HOST, BYTES(""), NVMF_NQN_FIELD, 0},
	{DATA(hostnqn), HOST, BYTES("iqn")},
	{DATA(hostnqn), HOST, BYTES("nqn.2014-08.org.nvmexpress:uuid:6F")},
	{DATA(hostnqn), PARAM, TEXT("nqn.2026-01.org:a\nrblkd: forged")},
	{DATA(hostnqn), PARAM, BYTES("nqn.2026-01.\x1b[2J")},
	{DATA(subnqn), PARAM, TEXT("nqn.2026-01.org:\xff\xfe\xc3\x28")},
	{0},
};

/* NQNs are compared whole, and the log quotes characters that are no letters of an NQN. */
static void r10_names(void **state)
{
	static const char *const never[] = {"\nrblkd: forged", "\xff\xfe", "\x1b[2J",
					    "nqn.2026-01.org:a\n"};

	expect_connects(names, NVMF_CNTLID_DYNAMIC);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (daemon_has_logged(&d, never[i]))
			fail_msg("its log has name %u", (unsigned)i);
}

/* SPDK's tools send an empty host NQN: they get the subsystems that any host may use. */
static void hosts_without_a_name_may_discover(void **state)
{
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(&q, d.port, 0, 32), 0);
	raw_connect_init(&c, &q, 0, 31, NVMF_CNTLID_DYNAMIC);
	memset(c.data.hostnqn, 0, sizeof(c.data.hostnqn));
	memset(c.data.subnqn, 0, sizeof(c.data.subnqn));
	strcpy((char *)c.data.subnqn, NVMF_DISCOVERY_NQN);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_OK);
	raw_close(&q);
	daemon_wait_logged(&d, "host without a name");
}

#define UNKNOWN_SUBSYSTEM DATA(subnqn), PARAM, TEXT("nqn.2026-01.org.example:unknown")
#define UNKNOWN_HOST	  DATA(hostnqn), HOST, TEXT("nqn.2026-01.org.example:stranger")

/* Runs first: its log lines are rate limited. */
static void says_why_it_refuses(void **state)
{
	static const struct damage unknown[] = {{UNKNOWN_SUBSYSTEM}, {UNKNOWN_HOST}, {0}};

	expect_connects(unknown, NVMF_CNTLID_DYNAMIC);
	daemon_wait_logged(&d, "there is no such subsystem");
	daemon_wait_logged(&d, "add it to allow_hosts");
}

static void bad_connects_of_admin_queues(void **state)
{
	static const struct damage rows[] = {
		{CMD(recfmt), NVME_CONNECT_FORMAT, BYTES("\1\0")},
		{CMD(qid), PARAM, BYTES("\1\0")},
		{CMD(sqsize), PARAM, BYTES("\0\0")},
		{CMD(sqsize), PARAM, BYTES("\40\0")},
		{CMD(sgl.keyed.length), NVME_SGL_LENGTH_INVALID, BYTES("\377\3\0")},
		{CMD(sgl.keyed.length), NVME_SGL_LENGTH_INVALID, BYTES("\1\4\0")},
		{CMD(sgl.keyed.length), NVME_SGL_LENGTH_INVALID, BYTES("\0\0\0")},
		{DATA(cntlid), PARAM, BYTES("\1\0")},
		{UNKNOWN_SUBSYSTEM},
		{DATA(subnqn), PARAM, BYTES(""), NVMF_NQN_FIELD, 'n'},
		{DATA(hostnqn), PARAM, BYTES(""), NVMF_NQN_FIELD, 'n'},
		{DATA(hostnqn), PARAM, BYTES("nqn.2026-01.\x1b[2J")},
		{UNKNOWN_HOST},
		/* Equal up to the end of the configured name, and longer. */
		{DATA(hostnqn), HOST, TEXT(RAW_HOSTNQN "x")},
		/* The other subsystem does not have the host. */
		{offsetof(struct raw_connect, data.subnqn), RESULT(hostnqn), HOST,
		 TEXT("nqn.2026-01.org.example:others")},
		{0},
	};

	expect_connects(rows, NVMF_CNTLID_DYNAMIC);
}

static void bad_connects_of_io_queues(void **state)
{
	static const struct damage rows[] = {
		{DATA(cntlid), PARAM, BYTES("\0\0"), .qid = 2},
		{DATA(cntlid), PARAM, BYTES("\377\377"), .qid = 2},
		{DATA(hostid), PARAM, BYTES("s"), .qid = 2},
		{CMD(qid), NVME_COMMAND_SEQUENCE, BYTES(""), .qid = 1},
		{CMD(qid), PARAM, BYTES(""), .qid = 65},
		{CMD(qid), PARAM, BYTES(""), .qid = 65535},
		{0},
	};
	static const struct damage other = {DATA(cntlid), PARAM, BYTES(""), .qid = 2};
	struct raw_host h;

	raw_host_open(&h, d.port);
	expect_connect(&other, (uint16_t)(h.cntlid + 1));
	expect_connects(rows, h.cntlid);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	raw_host_close(&h);
}

static void io_queue_before_enable(void **state)
{
	static const struct damage none = {CMD(qid), PARAM, BYTES(""), .qid = 1};
	struct raw_queue q;
	struct nvme_cqe cqe;

	assert_int_equal(connect_admin(&q, d.port, &cqe), NVME_OK);
	expect_connect(&none, (uint16_t)get_le32(cqe.dw0));
	raw_close(&q);
}

static void commands_before_connect(void **state)
{
	const enum nvme_status sequence = NVME_COMMAND_SEQUENCE | NVME_DNR;
	struct raw_queue q;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;
	uint64_t value;

	assert_int_equal(raw_open(&q, d.port, 0, 32), 0);
	sqe = raw_sqe(&q, NVME_ADMIN_KEEP_ALIVE, 0);
	assert_int_equal(raw_run(&q, &sqe, NULL, 0, &cqe), sequence);
	assert_int_equal(raw_property_get(&q, NVME_PROP_CAP, true, &value), sequence);
	raw_close(&q);
	assert_int_equal(raw_open(&q, d.port, 1, 32), 0);
	assert_int_equal(raw_io(&q, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), sequence);
	raw_close(&q);
}

static void commands_in_the_wrong_order(void **state)
{
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	assert_int_equal(connect_admin(&q, d.port, &cqe), NVME_OK);
	sqe = raw_sqe(&q, NVME_ADMIN_KEEP_ALIVE, 0); /* before CC.EN */
	assert_int_equal(raw_run(&q, &sqe, NULL, 0, &cqe), NVME_COMMAND_SEQUENCE | NVME_DNR);
	raw_connect_init(&c, &q, 0, 31, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_COMMAND_SEQUENCE | NVME_DNR);
	raw_close(&q);
}

#define CASE(name, run, ...) ((struct CMUnitTest){#name, run, NULL, next_good_host, __VA_ARGS__})
#define CROWD(...)	     (&(struct crowd){__VA_ARGS__})
#define BURST(...)	     (&(struct burst){__VA_ARGS__})

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(says_why_it_refuses, next_good_host),
		cmocka_unit_test_teardown(r1_connect_requests, next_good_host),
		cmocka_unit_test_teardown(r1_short_requests, next_good_host),
		cmocka_unit_test_teardown(r10_names, next_good_host),
		cmocka_unit_test_teardown(hosts_without_a_name_may_discover, next_good_host),
		/* The rate limit is separate: half of so few is a burst that four may exceed. */
		CASE(r8_too_many_in_all, crowd,
		     CROWD(", connections: 4, connect_rate_per_host: 10000", 5, 4,
			   NVME_CONNECT_BUSY, .is_refused = true)),
		CASE(r8_too_many_pending, crowd, CROWD(NULL, 9, 8, .are_dropped = true)),
		CASE(r8_too_many_of_one_host, crowd, CROWD(NULL, 17, 16, NVME_CONNECT_BUSY)),
		CASE(r8_too_many_associations, crowd,
		     CROWD(", controllers_per_host: 3", 4, 3, NVME_CONNECT_BUSY)),
		/* A burst of limits.connections passes. */
		CASE(r8_too_many_connects_in_a_short_time, burst,
		     BURST(", connections: 10, connect_rate: 1, connect_rate_per_host: 1000000", 30,
			   10, "raise limits.connect_rate")),
		/* Half of the burst passes. */
		CASE(r8_one_address_connects_too_often, burst,
		     BURST(", connections: 40, connect_rate: 1000000, connect_rate_per_host: 1", 60,
			   20, "raise limits.connect_rate_per_host", 10)),
		/* Silent connections: other hosts still connect. */
		CASE(r8_one_address_keeps_silent, crowd,
		     CROWD(", pending_per_host: 3, connect_timeout: 300s", 4, 3,
			   .hint = "raise limits.pending_per_host")),
		cmocka_unit_test_teardown(bad_connects_of_admin_queues, next_good_host),
		cmocka_unit_test_teardown(bad_connects_of_io_queues, next_good_host),
		cmocka_unit_test_teardown(io_queue_before_enable, next_good_host),
		cmocka_unit_test_teardown(commands_before_connect, next_good_host),
		cmocka_unit_test_teardown(commands_in_the_wrong_order, next_good_host),
	};

	return cmocka_run_group_tests_name("hostile_connects", tests, start, stop);
}
