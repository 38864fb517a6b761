/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes that wait, whose data is in the receives that all I/O queues of a poller share. A host
 * that sends more of them than its share loses its queues, before the other hosts lack receives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	N_HOGS = 3,
	N_WRITES = 31,
	N_READS = 20,
	N_BYTES = 4096,
};

#define TOO_MANY "of 64 receives: raise tuning.shared_receives"

/* Few receives, and a host may have 80 KiB of buffers. Only rblkd's own disk can hang
 * (hung_disk.c). */
static int start_small(void **state)
{
	char preload[8192];

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), getenv("LD_PRELOAD"));
	setenv("LD_PRELOAD", preload, 1);
	return start_limited(", workers: 1, shared_receives: 64", ", buffers_per_host: 1");
}

static void send_write(struct raw_queue *q, uint32_t nsid, unsigned block_bytes)
{
	struct nvme_sqe sqe = raw_blocks(q, NVME_IO_WRITE, nsid, 0, N_BYTES / block_bytes);
	char capsule[sizeof(sqe) + N_BYTES];

	sqe.sgl = (struct nvme_sgl){0};
	sqe.sgl.block.length = put_le32(N_BYTES);
	sqe.sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
	memset(capsule, 0x5a, sizeof(capsule));
	memcpy(capsule, &sqe, sizeof(sqe));
	raw_send(q, capsule, sizeof(capsule));
}

/* All writes go to a namespace that accepts one a second. */
static void open_hogs(struct raw_host hogs[N_HOGS])
{
	limit_rate("nsid: 1, ram: 16", "{iops: 1}");
	for (unsigned i = 0; i < N_HOGS; i++) {
		raw_host_open_as(&hogs[i], d.port, i + 1);
		for (unsigned k = 0; k < N_WRITES && !hogs[i].io.is_dead; k++)
			send_write(&hogs[i].io, DAEMON_RAM, 512);
	}
}

static void writes_that_wait_leave_receives(void **state)
{
	struct raw_host hogs[N_HOGS], other;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	open_hogs(hogs);
	daemon_wait_logged(&d, TOO_MANY);
	raw_host_open(&other, d.port);
	for (unsigned i = 0; i < N_READS; i++) {
		send_write(&other.io, DAEMON_FILE, 4096);
		assert_true(raw_collect(&other.io, 1, 60000));
		assert_int_equal(raw_io(&other.io, NVME_IO_READ, DAEMON_FILE, i, 1, 4096), NVME_OK);
	}
	raw_host_close(&other);
	/* The association lives: only the queue ended. */
	sqe = raw_sqe(&hogs[0].admin, NVME_ADMIN_IDENTIFY, 0);
	sqe.cdw10 = put_le32(1);
	raw_describe(&hogs[0].admin, &sqe, 0, 4096);
	assert_int_equal(raw_run(&hogs[0].admin, &sqe, NULL, 0, &cqe), NVME_OK);
	for (unsigned i = 0; i < N_HOGS; i++)
		raw_host_close(&hogs[i]);
	limit_rate("nsid: 1, ram: 16", NULL);
}

static void hang_disk(bool is_hung)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/hung", d.folder);
	if (!is_hung) {
		assert_int_equal(unlink(path), 0);
		return;
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

static bool is_any_dead(struct raw_host hogs[N_HOGS])
{
	struct nvme_cqe cqe;
	bool is_any = false;

	for (unsigned i = 0; i < N_HOGS; i++) {
		assert_false(raw_receive(&hogs[i].io, &cqe, 10));
		is_any |= hogs[i].io.is_dead;
	}
	return is_any;
}

/* The hung disk retains some of the receives; other writes wait for buffers. Commands for other
 * namespaces are served; when the disk resumes, so are those that waited for it. */
static void a_disk_that_hangs_leaves_receives(void **state)
{
	uint64_t deadline = clock_ns() + 60 * NSEC_PER_SEC;
	struct raw_host hogs[N_HOGS], other;

	hang_disk(true);
	for (unsigned i = 0; i < N_HOGS; i++) {
		raw_host_open_as(&hogs[i], d.port, i + 1);
		for (unsigned k = 0; k < N_WRITES && !hogs[i].io.is_dead; k++)
			send_write(&hogs[i].io, DAEMON_FILE, 4096);
	}
	while (!is_any_dead(hogs))
		assert_true(clock_ns() < deadline);
	assert_true(daemon_has_logged(&d, TOO_MANY));
	raw_host_open(&other, d.port);
	for (unsigned i = 0; i < N_READS; i++) {
		send_write(&other.io, DAEMON_RAM, 512);
		assert_true(raw_collect(&other.io, 1, 60000));
		assert_int_equal(raw_io(&other.io, NVME_IO_READ, DAEMON_RAM, i, 1, 512), NVME_OK);
	}
	hang_disk(false);
	for (unsigned i = 0; i < N_HOGS; i++)
		if (!hogs[i].io.is_dead)
			assert_true(raw_collect(&hogs[i].io, N_WRITES, 60000));
	assert_int_equal(raw_io(&other.io, NVME_IO_READ, DAEMON_FILE, 0, 1, 4096), NVME_OK);
	assert_int_equal(other.io.data[0], 0x5a);
	raw_host_close(&other);
	for (unsigned i = 0; i < N_HOGS; i++)
		raw_host_close(&hogs[i]);
}

/* A host that does it again and again. */
static void no_receive_is_lost(void **state)
{
	struct raw_host hogs[N_HOGS];

	for (unsigned i = 0; i < 3; i++) {
		open_hogs(hogs);
		for (unsigned k = 0; k < N_HOGS; k++)
			raw_host_close(&hogs[k]);
		daemon_wait_empty(&d);
	}
	limit_rate("nsid: 1, ram: 16", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(writes_that_wait_leave_receives, next_good_host),
		cmocka_unit_test_teardown(a_disk_that_hangs_leaves_receives, next_good_host),
		cmocka_unit_test_teardown(no_receive_is_lost, next_good_host),
	};

	return cmocka_run_group_tests_name("receives", tests, start_small, stop);
}
