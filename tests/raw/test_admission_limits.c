/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of discovery connections, and of hosts from one address: one below the limit, at it and
 * one beyond. A place that is given back is free at once, and other hosts are not affected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/daemon.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_S = 60,
	MANY = 12,
	KATO_MS = 3600 * 1000,
};

static struct daemon d;

static enum nvme_status discover(struct raw_queue *q, uint32_t kato_ms)
{
	static unsigned n_names;
	struct raw_connect c;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(q, d.port, 0, 32), 0);
	raw_connect_init(&c, q, 0, 31, NVMF_CNTLID_DYNAMIC);
	memset(c.data.subnqn, 0, sizeof(c.data.subnqn));
	strcpy((char *)c.data.subnqn, NVMF_DISCOVERY_NQN);
	snprintf((char *)c.data.hostnqn, sizeof(c.data.hostnqn),
		 "nqn.2026-01.org.example:made-up-%u", n_names++);
	c.cmd.kato = put_le32(kato_ms);
	return raw_connect(q, &c, &cqe);
}

/* n more are admitted, from 127.0.0.NUMBER. */
static void fill(struct raw_queue *queues, unsigned n, unsigned number)
{
	raw_come_from(number);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(discover(&queues[i], 0), NVME_OK);
	raw_come_from(0);
}

static void must_be_full(unsigned number, const char *why)
{
	struct raw_queue q;

	raw_come_from(number);
	assert_int_equal(discover(&q, 0), NVME_CONNECT_BUSY);
	raw_come_from(0);
	raw_close(&q);
	daemon_wait_logged(&d, why);
}

/* The target notices a disconnect a moment later. */
static void give_back(struct raw_queue *q)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	unsigned n = daemon_n_connections(&d);

	raw_close(q);
	while (daemon_n_connections(&d) >= n) {
		assert_true(clock_ns() < deadline);
		usleep(1000);
	}
}

static void end(struct raw_queue *queues, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		raw_close(&queues[i]);
	daemon_wait_empty(&d);
	daemon_stop(&d);
}

static void must_serve(void)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	raw_host_close(&h);
}

/* 4 of one address, 6 of all. */
static void discovery_has_limits(void **state)
{
	struct raw_queue queues[6] = {0};

	daemon_start_limited(&d, "", ", discovery: 6, discovery_per_address: 4");
	fill(queues, 4, 2);
	must_be_full(2, "raise limits.discovery_per_address");
	must_serve();
	give_back(&queues[3]);
	fill(&queues[3], 1, 2);
	must_be_full(2, "raise limits.discovery_per_address");
	fill(&queues[4], 2, 3);
	must_be_full(4, "raise limits.discovery");
	give_back(&queues[0]);
	fill(&queues[0], 1, 4);
	must_be_full(2, "raise limits.discovery");
	must_serve();
	end(queues, 6);
}

/* Without limits.discovery: the other half is for hosts that use what they discovered. */
static void discovery_takes_half_at_most(void **state)
{
	struct raw_queue queues[MANY / 2] = {0};

	daemon_start_limited(&d, "", ", connections: 12, connect_rate_per_host: 10000");
	for (unsigned i = 0; i < MANY / 2; i++)
		fill(&queues[i], 1, 2 + i);
	must_be_full(MANY, "discovery associations have half of limits.connections");
	must_serve();
	end(queues, MANY / 2);
}

/* A discovery controller without keep alive may stay only briefly; one with keep alive stays. */
static void a_look_does_not_last(void **state)
{
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC, value;
	struct raw_queue queues[2] = {0};
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	daemon_start_limited(&d, "", ", discovery_timeout: 500ms");
	assert_int_equal(discover(&queues[0], KATO_MS), NVME_OK);
	assert_int_equal(discover(&queues[1], 0), NVME_OK);
	sqe = raw_sqe(&queues[1], NVME_FABRICS, NVMF_PROPERTY_GET);
	while (!queues[1].is_dead && clock_ns() < deadline) {
		raw_send(&queues[1], &sqe, sizeof(sqe));
		raw_receive(&queues[1], &cqe, 10);
	}
	assert_true(queues[1].is_dead);
	daemon_wait_logged(&d, "limits.discovery_timeout");
	assert_int_equal(raw_property_get(&queues[0], NVME_PROP_CAP, true, &value), NVME_OK);
	end(queues, 2);
}

/* Connections of any kind, if the configuration limits them. */
static void one_address_has_its_share(void **state)
{
	struct raw_queue queues[4] = {0}, other;

	daemon_start_limited(&d, "", ", connections_per_address: 3");
	raw_come_from(2);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(raw_open(&queues[i], d.port, 0, 32),
				 i < 3 ? 0 : NVMF_CM_NO_RESOURCES);
	daemon_wait_logged(&d, "raise limits.connections_per_address");
	raw_come_from(3);
	assert_int_equal(raw_open(&other, d.port, 0, 32), 0);
	give_back(&other);
	raw_come_from(2);
	raw_close(&queues[3]); /* the refused one */
	give_back(&queues[2]);
	assert_int_equal(raw_open(&queues[2], d.port, 0, 32), 0);
	raw_come_from(0);
	end(queues, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(discovery_has_limits),
		cmocka_unit_test(discovery_takes_half_at_most),
		cmocka_unit_test(a_look_does_not_last),
		cmocka_unit_test(one_address_has_its_share),
	};

	return cmocka_run_group_tests_name("admission_limits", tests, NULL, NULL);
}
