/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The effect of one host on another on the same poller. The hog reads as much as it can and takes
 * no response: it posts no receives, so its buffers do not come back. Every other host must be
 * served while the hog holds them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	HOG_READS = 31,
	HOG_BYTES = 1024 * 1024,
	N_READS = 50,
	WAIT_MS = 60000,
};

static int start_one_poller(void **state)
{
	daemon_start(&d, ", workers: 1");
	return 0;
}

static void send_read(struct raw_queue *q, uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_READ, DAEMON_FILE);

	raw_describe(q, &sqe, 0, n_bytes);
	sqe.cdw12 = put_le32((n_bytes >> 12) - 1);
	raw_send(q, &sqe, sizeof(sqe));
}

/* Reads without receives, until nothing more arrives: the hog keeps all that it gets. */
static void open_hog(struct raw_host *hog)
{
	struct nvme_cqe cqe;

	raw_host_open(hog, d.port);
	hog->io.keeps_receives = true;
	/* Uses up the posted receives. */
	for (unsigned i = 1; i < RAW_RECVS; i++)
		assert_int_equal(raw_io(&hog->io, NVME_IO_READ, DAEMON_FILE, 0, 1, 4096), NVME_OK);
	for (unsigned i = 0; i < HOG_READS; i++)
		send_read(&hog->io, HOG_BYTES);
	/* One receive may be left, Connect's; then its buffers are held. */
	while (raw_receive(&hog->io, &cqe, 300))
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
}

static void close_hog(struct raw_host *hog)
{
	assert_false(hog->io.is_dead); /* rblkd did not have to end it */
	assert_false(daemon_has_logged(&d, "does not take its data"));
	raw_host_close(hog);
	daemon_wait_empty(&d);
}

static void reader_beside_a_hog(void **state)
{
	struct raw_host hog, reader;

	open_hog(&hog);
	raw_host_open(&reader, d.port);
	for (unsigned i = 0; i < N_READS; i++)
		assert_int_equal(raw_io(&reader.io, NVME_IO_READ, DAEMON_FILE, i, 1, 4096),
				 NVME_OK);
	for (unsigned i = 0; i < N_READS; i++)
		assert_int_equal(raw_io(&reader.io, NVME_IO_WRITE, DAEMON_FILE, i, 16, 65536),
				 NVME_OK);
	raw_host_close(&reader);
	close_hog(&hog);
}

/* Its own admin queue too. */
static void keep_alive_beside_a_hog(void **state)
{
	struct raw_host hog, other;
	struct raw_queue *admins[] = {&hog.admin, &other.admin};
	struct nvme_cqe cqe;

	open_hog(&hog);
	raw_host_open_admin(&other, d.port, RAW_SUBNQN);
	for (unsigned i = 0; i < 2; i++) {
		struct nvme_sqe sqe = raw_sqe(admins[i], NVME_ADMIN_SET_FEATURES, 0);

		sqe.cdw10 = put_le32(NVME_FEAT_KATO);
		sqe.cdw11 = put_le32(600000);
		assert_int_equal(raw_run(admins[i], &sqe, NULL, 0, &cqe), NVME_OK);
		sqe = raw_sqe(admins[i], NVME_ADMIN_KEEP_ALIVE, 0);
		assert_int_equal(raw_run(admins[i], &sqe, NULL, 0, &cqe), NVME_OK);
		sqe = raw_sqe(admins[i], NVME_ADMIN_IDENTIFY, 0);
		sqe.cdw10 = put_le32(1);
		raw_describe(admins[i], &sqe, 0, 4096);
		assert_int_equal(raw_run(admins[i], &sqe, NULL, 0, &cqe), NVME_OK);
	}
	raw_close(&other.admin);
	close_hog(&hog);
}

static void hosts_connect_beside_a_hog(void **state)
{
	struct raw_host hog, other;

	open_hog(&hog);
	for (unsigned i = 0; i < 5; i++) {
		raw_host_open(&other, d.port);
		raw_host_close(&other);
	}
	close_hog(&hog);
}

/* Each hog gets less than the one before; some buffers are always left. */
static void reader_beside_many_hogs(void **state)
{
	struct raw_host hogs[4], reader;

	for (unsigned i = 0; i < 4; i++)
		open_hog(&hogs[i]);
	raw_host_open(&reader, d.port);
	for (unsigned i = 0; i < N_READS; i++)
		assert_int_equal(raw_io(&reader.io, NVME_IO_READ, DAEMON_FILE, i, 1, 4096),
				 NVME_OK);
	raw_host_close(&reader);
	for (unsigned i = 0; i < 4; i++)
		raw_host_close(&hogs[i]);
	daemon_wait_empty(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader_beside_a_hog),
		cmocka_unit_test(keep_alive_beside_a_hog),
		cmocka_unit_test(hosts_connect_beside_a_hog),
		cmocka_unit_test(reader_beside_many_hogs),
	};

	return cmocka_run_group_tests_name("fairness", tests, start_one_poller, stop);
}
