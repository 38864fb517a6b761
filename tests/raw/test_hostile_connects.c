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
		uint8_t n;
		uint8_t resources;
		int status;
	} cases[] = {
		{{.recfmt = {{1}}, .hrqsize = {{32}}, .hsqsize = {{31}}},
		 32,
		 16,
		 NVMF_CM_INVALID_RECFMT},
		{{.hrqsize = {{32}}, .hsqsize = {{32}}}, 32, 16, NVMF_CM_INVALID_HSQSIZE},
		{{.hrqsize = {{32}}, .hsqsize = {{0}}}, 32, 16, NVMF_CM_INVALID_HSQSIZE},
		{{.hrqsize = {{0}}, .hsqsize = {{31}}}, 32, 16, NVMF_CM_INVALID_HRQSIZE},
		{{.qid = {{1}}, .hrqsize = {{128}}, .hsqsize = {{128}}},
		 32,
		 16,
		 NVMF_CM_INVALID_HSQSIZE},
		{{.qid = {{1}}, .hrqsize = {{255, 255}}, .hsqsize = {{255, 255}}},
		 32,
		 16,
		 NVMF_CM_INVALID_HSQSIZE},
		{{.hrqsize = {{32}}, .hsqsize = {{31}}}, 32, 0, NVMF_CM_INVALID_IRD},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(try_request(&cases[i].req, cases[i].n, cases[i].resources),
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
		else if (n <= offsetof(struct nvmf_cm_req, hrqsize))
			assert_int_equal(status, NVMF_CM_INVALID_HSQSIZE);
		else if (n <= offsetof(struct nvmf_cm_req, hsqsize))
			assert_int_equal(status, NVMF_CM_INVALID_HSQSIZE);
		else
			assert_int_equal(status, 0);
		daemon_wait_empty(&d);
	}
}

static void r8_too_many_pending(void **state)
{
	struct raw_queue queues[9];

	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(raw_open(&queues[i], d.port, 0, 32), 0);
	assert_int_equal(raw_open(&queues[8], d.port, 0, 32), NVMF_CM_NO_RESOURCES);
	/* Connections that send nothing: dropped after connect_timeout. */
	for (unsigned i = 0; i < 8; i++)
		assert_true(raw_is_dropped(&queues[i]));
	for (unsigned i = 0; i < 9; i++)
		raw_close(&queues[i]);
}

static void r8_too_many_of_one_host(void **state)
{
	struct raw_queue queues[17] = {0};
	struct raw_connect c;
	struct nvme_cqe cqe;

	for (unsigned i = 0; i < 17; i++) {
		enum nvme_status wanted = i < 16 ? NVME_OK : NVME_CONNECT_BUSY;

		assert_int_equal(raw_open(&queues[i], d.port, 0, 32), 0);
		raw_connect_init(&c, &queues[i], 0, 31, NVMF_CNTLID_DYNAMIC);
		assert_int_equal(raw_connect(&queues[i], &c, &cqe), wanted);
	}
	for (unsigned i = 0; i < 17; i++)
		raw_close(&queues[i]);
}

/* A daemon of its own: its limits would disturb the other tests. */
static void r8_too_many_associations(void **state)
{
	struct raw_queue queues[4] = {0};
	struct raw_connect c;
	struct nvme_cqe cqe;
	struct daemon own;

	daemon_start_limited(&own, "", ", controllers_per_host: 3");
	for (unsigned i = 0; i < 4; i++) {
		enum nvme_status wanted = i < 3 ? NVME_OK : NVME_CONNECT_BUSY;

		assert_int_equal(raw_open(&queues[i], own.port, 0, 32), 0);
		raw_connect_init(&c, &queues[i], 0, 31, NVMF_CNTLID_DYNAMIC);
		assert_int_equal(raw_connect(&queues[i], &c, &cqe), wanted);
	}
	for (unsigned i = 0; i < 4; i++)
		raw_close(&queues[i]);
	daemon_stop(&own);
}

static void r8_too_many_in_all(void **state)
{
	struct raw_queue queues[5] = {0};
	struct raw_connect c;
	struct nvme_cqe cqe;
	struct daemon own;

	/* The rate limit is separate: half of so few is a burst that four connects may exceed. */
	daemon_start_limited(&own, "", ", connections: 4, connect_rate_per_host: 10000");
	for (unsigned i = 0; i < 5; i++) {
		int r = raw_open(&queues[i], own.port, 0, 32);

		assert_int_equal(r, i < 4 ? 0 : NVMF_CM_NO_RESOURCES);
		if (r)
			continue;
		raw_connect_init(&c, &queues[i], 0, 31, NVMF_CNTLID_DYNAMIC);
		assert_int_equal(raw_connect(&queues[i], &c, &cqe), NVME_OK);
	}
	for (unsigned i = 0; i < 5; i++)
		raw_close(&queues[i]);
	daemon_wait_empty(&own);
	daemon_stop(&own);
}

/* A burst of limits.connections passes, then one a second. */
static void r8_too_many_connects_in_a_short_time(void **state)
{
	struct daemon own;
	unsigned n_passed = 0;
	struct raw_queue q;

	daemon_start_limited(&own, "",
			     ", connections: 10, connect_rate: 1, connect_rate_per_host: 1000000");
	for (unsigned i = 0; i < 30; i++) {
		int r = raw_open(&q, own.port, 0, 32);

		assert_true(r == 0 || r == NVMF_CM_NO_RESOURCES);
		n_passed += r == 0;
		raw_close(&q);
		daemon_wait_empty(&own);
	}
	assert_true(n_passed >= 10 && n_passed < 30);
	daemon_wait_logged(&own, "raise limits.connect_rate");
	daemon_stop(&own);
}

/* Half of the burst passes, then one a second. A host at another address is not affected. */
static void r8_one_address_connects_too_often(void **state)
{
	struct daemon own;
	unsigned n_passed = 0;
	struct raw_queue q;

	daemon_start_limited(&own, "",
			     ", connections: 40, connect_rate: 1000000, connect_rate_per_host: 1");
	for (unsigned i = 0; i < 60; i++) {
		int r = raw_open(&q, own.port, 0, 32);

		assert_true(r == 0 || r == NVMF_CM_NO_RESOURCES);
		n_passed += r == 0;
		raw_close(&q);
		daemon_wait_empty(&own);
	}
	assert_true(n_passed >= 20 && n_passed < 60);
	daemon_wait_logged(&own, "raise limits.connect_rate_per_host");
	raw_come_from(2);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(raw_open(&q, own.port, 0, 32), 0);
		raw_close(&q);
		daemon_wait_empty(&own);
	}
	raw_come_from(0);
	daemon_stop(&own);
}

/* Silent connections from one address: other hosts still connect. */
static void r8_one_address_keeps_silent(void **state)
{
	struct raw_queue silent[4] = {0}, other;
	struct daemon own;

	daemon_start_limited(&own, "", ", pending_per_host: 3, connect_timeout: 300s");
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(raw_open(&silent[i], own.port, 0, 32),
				 i < 3 ? 0 : NVMF_CM_NO_RESOURCES);
	daemon_wait_logged(&own, "raise limits.pending_per_host");
	raw_come_from(2);
	assert_int_equal(raw_open(&other, own.port, 0, 32), 0);
	raw_come_from(0);
	raw_close(&other);
	for (unsigned i = 0; i < 4; i++)
		raw_close(&silent[i]);
	daemon_stop(&own);
}

/* ---- Connect --------------------------------------------------------------------------------- */

#define DATA_AT(field) (offsetof(struct nvmf_connect_data, field) | NVMF_CONNECT_IATTR_DATA)
#define CMD_AT(field)  offsetof(struct nvmf_connect_cmd, field)

/* On a fresh admin connection. result: dword 0, where the status is 1.82 or 1.84. */
static void expect_connect(void (*spoil)(struct raw_connect *c), enum nvme_status status,
			   uint32_t result)
{
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(&q, d.port, 0, 32), 0);
	raw_connect_init(&c, &q, 0, 31, NVMF_CNTLID_DYNAMIC);
	spoil(&c);
	assert_int_equal(raw_connect(&q, &c, &cqe), status);
	assert_int_equal(get_le32(cqe.dw0), result);
	assert_int_equal(get_le32(cqe.dw1), 0);
	raw_close(&q);
	daemon_wait_empty(&d); /* frees the place of a connection before Connect */
}

static void bad_recfmt(struct raw_connect *c)
{
	c->cmd.recfmt = put_le16(1);
}
static void bad_qid(struct raw_connect *c)
{
	c->cmd.qid = put_le16(1);
}
static void sqsize_0(struct raw_connect *c)
{
	c->cmd.sqsize = put_le16(0);
}
static void sqsize_32(struct raw_connect *c)
{
	c->cmd.sqsize = put_le16(32);
}
static void short_data(struct raw_connect *c)
{
	c->cmd.sgl.keyed.length = put_le24(1023);
}
static void long_data(struct raw_connect *c)
{
	c->cmd.sgl.keyed.length = put_le24(1025);
}
static void no_data(struct raw_connect *c)
{
	c->cmd.sgl.keyed.length = put_le24(0);
}
static void static_controller(struct raw_connect *c)
{
	c->data.cntlid = put_le16(1);
}
static void unknown_subsystem(struct raw_connect *c)
{
	strcpy((char *)c->data.subnqn, "nqn.2026-01.org.example:unknown");
}
static void other_subsystem(struct raw_connect *c)
{
	strcpy((char *)c->data.subnqn, "nqn.2026-01.org.example:others");
}
static void endless_subnqn(struct raw_connect *c)
{
	memset(c->data.subnqn, 'n', sizeof(c->data.subnqn));
}
static void endless_hostnqn(struct raw_connect *c)
{
	memset(c->data.hostnqn, 'n', sizeof(c->data.hostnqn));
}
static void binary_hostnqn(struct raw_connect *c)
{
	memcpy(c->data.hostnqn, "nqn.2026-01.\x1b[2J", 16);
}
static void unknown_host(struct raw_connect *c)
{
	strcpy((char *)c->data.hostnqn, "nqn.2026-01.org.example:stranger");
}
/* Equal up to the end of the configured name, and longer. */
static void longer_host(struct raw_connect *c)
{
	strcat((char *)c->data.hostnqn, "x");
}

/* 223 bytes are a name, 224 are none. */
static void subnqn_of(struct raw_connect *c, size_t n)
{
	memset(c->data.subnqn, 'x', n);
	memcpy(c->data.subnqn, "nqn.2026-01.org:", 16);
	c->data.subnqn[n] = 0;
}
static void longest_subnqn(struct raw_connect *c)
{
	subnqn_of(c, 223);
}
static void too_long_subnqn(struct raw_connect *c)
{
	subnqn_of(c, 224);
}
static void empty_hostnqn(struct raw_connect *c)
{
	memset(c->data.hostnqn, 0, sizeof(c->data.hostnqn));
}
static void no_nqn(struct raw_connect *c)
{
	memcpy(c->data.hostnqn, "iqn", 3);
}
/* The allowed host's NQN, except for one letter's case. */
static void other_case(struct raw_connect *c)
{
	c->data.hostnqn[sizeof(RAW_HOSTNQN) - 2] ^= 0x20;
}
static void two_lines(struct raw_connect *c)
{
	strcpy((char *)c->data.hostnqn, "nqn.2026-01.org:a\nrblkd: forged");
}
static void high_bytes(struct raw_connect *c)
{
	strcpy((char *)c->data.subnqn, "nqn.2026-01.org:\xff\xfe\xc3\x28");
}

/* NQNs are compared whole, and the log quotes characters that are no letters of an NQN. */
static void r10_names(void **state)
{
	const enum nvme_status invalid = NVME_CONNECT_INVALID_PARAM | NVME_DNR;
	const enum nvme_status host = NVME_CONNECT_INVALID_HOST | NVME_DNR;
	static const char *const never[] = {"\nrblkd: forged", "\xff\xfe", "\x1b[2J",
					    "nqn.2026-01.org:a\n"};

	expect_connect(longest_subnqn, invalid, DATA_AT(subnqn));
	expect_connect(too_long_subnqn, invalid, DATA_AT(subnqn));
	expect_connect(empty_hostnqn, host, DATA_AT(hostnqn));
	expect_connect(no_nqn, host, DATA_AT(hostnqn));
	expect_connect(other_case, host, DATA_AT(hostnqn));
	expect_connect(two_lines, invalid, DATA_AT(hostnqn));
	expect_connect(binary_hostnqn, invalid, DATA_AT(hostnqn));
	expect_connect(high_bytes, invalid, DATA_AT(subnqn));
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
	empty_hostnqn(&c);
	memset(c.data.subnqn, 0, sizeof(c.data.subnqn));
	strcpy((char *)c.data.subnqn, NVMF_DISCOVERY_NQN);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_OK);
	raw_close(&q);
	daemon_wait_logged(&d, "host without a name");
}

/* Runs first: its log lines are rate limited. */
static void says_why_it_refuses(void **state)
{
	expect_connect(unknown_subsystem, NVME_CONNECT_INVALID_PARAM | NVME_DNR, DATA_AT(subnqn));
	expect_connect(unknown_host, NVME_CONNECT_INVALID_HOST | NVME_DNR, DATA_AT(hostnqn));
	daemon_wait_logged(&d, "there is no such subsystem");
	daemon_wait_logged(&d, "add it to allow_hosts");
}

static void bad_connects_of_admin_queues(void **state)
{
	const enum nvme_status invalid = NVME_CONNECT_INVALID_PARAM | NVME_DNR;
	const enum nvme_status length = NVME_SGL_LENGTH_INVALID | NVME_DNR;
	const enum nvme_status host = NVME_CONNECT_INVALID_HOST | NVME_DNR;

	expect_connect(bad_recfmt, NVME_CONNECT_FORMAT | NVME_DNR, 0);
	expect_connect(bad_qid, invalid, CMD_AT(qid));
	expect_connect(sqsize_0, invalid, CMD_AT(sqsize));
	expect_connect(sqsize_32, invalid, CMD_AT(sqsize));
	expect_connect(short_data, length, 0);
	expect_connect(long_data, length, 0);
	expect_connect(no_data, length, 0);
	expect_connect(static_controller, invalid, DATA_AT(cntlid));
	expect_connect(unknown_subsystem, invalid, DATA_AT(subnqn));
	expect_connect(endless_subnqn, invalid, DATA_AT(subnqn));
	expect_connect(endless_hostnqn, invalid, DATA_AT(hostnqn));
	expect_connect(binary_hostnqn, invalid, DATA_AT(hostnqn));
	expect_connect(unknown_host, host, DATA_AT(hostnqn));
	expect_connect(longer_host, host, DATA_AT(hostnqn));
	expect_connect(other_subsystem, host, DATA_AT(hostnqn));
}

/* An I/O queue's Connect with one damaged field. */
static void expect_io_connect(uint16_t cntlid, uint16_t qid, void (*spoil)(struct raw_connect *c),
			      enum nvme_status status, uint32_t result)
{
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(&q, d.port, qid, 32), 0);
	raw_connect_init(&c, &q, qid, 31, cntlid);
	if (spoil)
		spoil(&c);
	assert_int_equal(raw_connect(&q, &c, &cqe), status);
	assert_int_equal(get_le32(cqe.dw0), result);
	raw_close(&q);
}

static void other_hostid(struct raw_connect *c)
{
	c->data.hostid[0] ^= 1;
}

static void bad_connects_of_io_queues(void **state)
{
	const enum nvme_status invalid = NVME_CONNECT_INVALID_PARAM | NVME_DNR;
	struct raw_host h;

	raw_host_open(&h, d.port);
	expect_io_connect((uint16_t)(h.cntlid + 1), 2, NULL, invalid, DATA_AT(cntlid));
	expect_io_connect(0, 2, NULL, invalid, DATA_AT(cntlid));
	expect_io_connect(NVMF_CNTLID_DYNAMIC, 2, NULL, invalid, DATA_AT(cntlid));
	expect_io_connect(h.cntlid, 2, other_hostid, invalid, DATA_AT(hostid));
	expect_io_connect(h.cntlid, 1, NULL, NVME_COMMAND_SEQUENCE | NVME_DNR, 0);
	expect_io_connect(h.cntlid, 65, NULL, invalid, CMD_AT(qid));
	expect_io_connect(h.cntlid, 65535, NULL, invalid, CMD_AT(qid));
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	raw_host_close(&h);
}

static void io_queue_before_enable(void **state)
{
	struct raw_connect c;
	struct raw_queue q;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(&q, d.port, 0, 32), 0);
	raw_connect_init(&c, &q, 0, 31, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_OK);
	expect_io_connect((uint16_t)get_le32(cqe.dw0), 1, NULL,
			  NVME_CONNECT_INVALID_PARAM | NVME_DNR, CMD_AT(qid));
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

	assert_int_equal(raw_open(&q, d.port, 0, 32), 0);
	raw_connect_init(&c, &q, 0, 31, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_OK);
	sqe = raw_sqe(&q, NVME_ADMIN_KEEP_ALIVE, 0); /* before CC.EN */
	assert_int_equal(raw_run(&q, &sqe, NULL, 0, &cqe), NVME_COMMAND_SEQUENCE | NVME_DNR);
	raw_connect_init(&c, &q, 0, 31, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(raw_connect(&q, &c, &cqe), NVME_COMMAND_SEQUENCE | NVME_DNR);
	raw_close(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(says_why_it_refuses, next_good_host),
		cmocka_unit_test_teardown(r1_connect_requests, next_good_host),
		cmocka_unit_test_teardown(r1_short_requests, next_good_host),
		cmocka_unit_test_teardown(r10_names, next_good_host),
		cmocka_unit_test_teardown(hosts_without_a_name_may_discover, next_good_host),
		cmocka_unit_test(r8_too_many_in_all),
		cmocka_unit_test_teardown(r8_too_many_pending, next_good_host),
		cmocka_unit_test_teardown(r8_too_many_of_one_host, next_good_host),
		cmocka_unit_test(r8_too_many_associations),
		cmocka_unit_test(r8_too_many_connects_in_a_short_time),
		cmocka_unit_test(r8_one_address_connects_too_often),
		cmocka_unit_test(r8_one_address_keeps_silent),
		cmocka_unit_test_teardown(bad_connects_of_admin_queues, next_good_host),
		cmocka_unit_test_teardown(bad_connects_of_io_queues, next_good_host),
		cmocka_unit_test_teardown(io_queue_before_enable, next_good_host),
		cmocka_unit_test_teardown(commands_before_connect, next_good_host),
		cmocka_unit_test_teardown(commands_in_the_wrong_order, next_good_host),
	};

	return cmocka_run_group_tests_name("hostile_connects", tests, start, stop);
}
