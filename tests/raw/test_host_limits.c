/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of one host's transfers and I/O queues: a greedy host waits or is refused, with a line in
 * the log, and another is served beside it. Limits change while both are connected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <json-c/json.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"

#define OTHER_HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:7a2b3a52-7f0e-4c4e-9d0c-0a4d5e6f7a8c"

enum {
	PATIENCE_MS = 60000,
	GREEDY_READS = 31,
	GREEDY_BYTES = 512 * 1024,
	GOOD_READS = 4,
	GOOD_BYTES = 1024 * 1024,
};

static void edit(const char *what)
{
	char command[512];

	snprintf(command, sizeof(command), "sed -i '%s' %s/target.yaml", what, d.folder);
	assert_int_equal(system(command), 0);
	json_object_put(daemon_ask(&d, "apply"));
}

static int start_with_limits(void **state)
{
	daemon_start_limited(&d, ", workers: 1", ", bytes_per_host: 2MiB, io_queues_per_host: 3");
	edit("s/allow_hosts: .raw./allow_any_host: true/");
	return 0;
}

/* A host with another NQN, on one I/O queue. */
static void other_host(struct raw_connect *c)
{
	strcpy((char *)c->data.hostnqn, OTHER_HOSTNQN);
	c->data.hostid[0] ^= 0xff;
}

static void send_read(struct raw_queue *q, uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_READ, DAEMON_FILE);

	raw_describe(q, &sqe, 0, n_bytes);
	sqe.cdw12 = put_le32((n_bytes >> 12) - 1);
	raw_send(q, &sqe, sizeof(sqe));
}

/*
 * The greedy host has no receives left, so the data read for it stays in its buffers: 2 of 8 MiB.
 * Then another host has many large transfers, which would not fit if the first held more.
 */
static void a_greedy_host_is_held(void **state)
{
	struct raw_host greedy, good;
	struct nvme_cqe cqe;
	unsigned n_early = 0;

	raw_host_open(&greedy, d.port);
	greedy.io.keeps_receives = true;
	for (unsigned i = 1; i < RAW_RECVS; i++)
		assert_int_equal(raw_io(&greedy.io, NVME_IO_READ, DAEMON_FILE, 0, 1, 4096),
				 NVME_OK);
	for (unsigned i = 0; i < GREEDY_READS; i++)
		send_read(&greedy.io, GREEDY_BYTES);
	while (n_early < GREEDY_READS && raw_receive(&greedy.io, &cqe, 300))
		n_early++;
	assert_true(n_early < GREEDY_READS);
	daemon_wait_logged(
		&d,
		"host " RAW_HOSTNQN
		": its transfers wait for one another, at 2097152 bytes: raise limits.bytes_per_host");
	raw_host_open_with(&good, d.port, other_host);
	for (unsigned i = 0; i < 10; i++) {
		for (unsigned k = 0; k < GOOD_READS; k++)
			send_read(&good.io, GOOD_BYTES);
		assert_true(raw_collect(&good.io, GOOD_READS, PATIENCE_MS));
	}
	raw_host_close(&greedy);
	raw_host_close(&good);
	daemon_wait_empty(&d);
}

/* Waiting is no refusal: once the host posts receives, each command is answered, and so is a
 * single transfer beyond the limit. */
static void what_is_held_goes_on(void **state)
{
	struct raw_host h;

	edit("s/bytes_per_host: 2MiB/bytes_per_host: 64KiB/");
	raw_host_open(&h, d.port);
	for (unsigned i = 0; i < GREEDY_READS; i++)
		send_read(&h.io, i % 2 ? GREEDY_BYTES : 4096);
	assert_true(raw_collect(&h.io, GREEDY_READS, PATIENCE_MS));
	for (unsigned i = 0; i < GREEDY_READS; i++)
		send_read(&h.io, GREEDY_BYTES);
	edit("s/, bytes_per_host: 64KiB//");
	assert_true(raw_collect(&h.io, GREEDY_READS, PATIENCE_MS));
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* The number of queues granted when it requests 8. */
static unsigned granted(struct raw_host *h)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_SET_FEATURES, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_QUEUES);
	sqe.cdw11 = put_le32(7 << 16 | 7);
	assert_int_equal(raw_run(&h->admin, &sqe, NULL, 0, &cqe), NVME_OK);
	return (get_le32(cqe.dw0) & 0xffff) + 1;
}

static enum nvme_status connect_io(struct raw_host *h, struct raw_queue *q)
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(q, d.port, 1, 32), 0);
	raw_connect_init(&c, q, 1, 31, h->cntlid);
	return raw_connect(q, &c, &cqe);
}

static void too_many_queues_are_refused(void **state)
{
	struct raw_host hosts[4], good;

	for (unsigned i = 0; i < 4; i++)
		raw_host_open_admin(&hosts[i], d.port, RAW_SUBNQN);
	assert_int_equal(granted(&hosts[0]), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(connect_io(&hosts[i], &hosts[i].io), NVME_OK);
	assert_int_equal(granted(&hosts[3]), 1);
	assert_int_equal(connect_io(&hosts[3], &hosts[3].io), NVME_CONNECT_BUSY);
	raw_close(&hosts[3].io);
	daemon_wait_logged(&d, "too many I/O queues: raise limits.io_queues_per_host");
	raw_host_open_with(&good, d.port, other_host);
	assert_int_equal(raw_io(&good.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512), NVME_OK);
	edit("s/io_queues_per_host: 3/io_queues_per_host: 4/");
	assert_int_equal(connect_io(&hosts[3], &hosts[3].io), NVME_OK);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(raw_io(&hosts[i].io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512),
				 NVME_OK);
		raw_host_close(&hosts[i]);
	}
	raw_host_close(&good);
	daemon_wait_empty(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greedy_host_is_held),
		cmocka_unit_test(what_is_held_goes_on),
		cmocka_unit_test(too_many_queues_are_refused),
	};

	return cmocka_run_group_tests_name("host_limits", tests, start_with_limits, stop);
}
