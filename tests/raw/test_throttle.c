/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of operations and bytes a second, set while hosts are connected: obeyed, lifted, and no
 * other command delayed by them. The clock only judges that a rate is not exceeded, never that it
 * is reached.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	PATIENCE_MS = 60000,
	DEPTH = 31,
	N_READS = 20,
	RATE = 200,
	KATO_MS = 600000,
};

#define SLOW "{iops: 1}" /* so that no command ends while the test looks */

static int start_small(void **state)
{
	daemon_start(&d, ", workers: 1, shared_receives: 64");
	return 0;
}

static void send_read(struct raw_queue *q, uint32_t nsid, uint32_t n_bytes)
{
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_READ, nsid);
	unsigned shift = nsid == DAEMON_FILE ? 12 : 9;

	raw_describe(q, &sqe, 0, n_bytes);
	sqe.cdw12 = put_le32((n_bytes >> shift) - 1);
	raw_send(q, &sqe, sizeof(sqe));
}

/* Reads n times, with as many outstanding as possible; returns how long that took. */
static double read_many(struct raw_queue *q, uint32_t nsid, uint32_t n_bytes, unsigned n)
{
	uint64_t begin = clock_ns();
	unsigned n_sent = 0;

	for (unsigned n_done = 0; n_done < n; n_done++) {
		while (n_sent < n && n_sent - n_done < DEPTH) {
			send_read(q, nsid, n_bytes);
			n_sent++;
		}
		assert_true(raw_collect(q, 1, PATIENCE_MS));
	}
	return (double)(clock_ns() - begin) / NSEC_PER_SEC;
}

/* A burst, a batch, and one ahead of the rate. */
static void expect_at_most(double n, double rate, double seconds, double each)
{
	double most = rate * (seconds + 0.1 + 0.1 / 32) + 2 * each;

	if (n > most)
		fail_msg("%.0f in %.3f s, at most %.0f", n, seconds, most);
}

static void rates_are_kept(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	limit_rate("nsid: 1, ram: 16", "{iops: 200}");
	expect_at_most(300, RATE, read_many(&h.io, DAEMON_RAM, 512, 300), 1);
	limit_rate("nsid: 1, ram: 16", "{read_bandwidth: 4MiB}");
	expect_at_most(8 << 20, 4 << 20, read_many(&h.io, DAEMON_RAM, 65536, 128), 65536);
	limit_rate("nsid: 1, ram: 16", NULL);
	limit_rate("name: raw", "{iops: 200}");
	expect_at_most(300, RATE, read_many(&h.io, DAEMON_FILE, 4096, 300), 1);
	limit_rate("name: raw", NULL);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* Keep Alive is an error for a host with KATO 0 (Base 2.0, 5.15). */
static void set_keep_alive(struct raw_host *h, uint32_t kato_ms)
{
	struct nvme_sqe sqe = raw_sqe(&h->admin, NVME_ADMIN_SET_FEATURES, 0);
	struct nvme_cqe cqe;

	sqe.cdw10 = put_le32(NVME_FEAT_KATO);
	sqe.cdw11 = put_le32(kato_ms);
	assert_int_equal(raw_run(&h->admin, &sqe, NULL, 0, &cqe), NVME_OK);
}

/* The first outstanding command that is answered; then the limit is lifted. */
static void others_are_not_held(void **state)
{
	unsigned n_held = 0, n_others = 0;
	struct raw_host h;
	struct nvme_sqe sqe;
	struct nvme_cqe cqe;

	raw_host_open(&h, d.port);
	set_keep_alive(&h, KATO_MS);
	limit_rate("nsid: 1, ram: 16", SLOW);
	raw_io(&h.io, NVME_IO_READ, DAEMON_RAM, 0, 1, 512); /* the burst */
	for (unsigned i = 0; i < DEPTH - 2; i++)
		send_read(&h.io, DAEMON_RAM, 512);
	/* Flush of the same namespace, another namespace, the admin queue. */
	sqe = raw_sqe(&h.io, NVME_IO_FLUSH, DAEMON_RAM);
	raw_send(&h.io, &sqe, sizeof(sqe));
	send_read(&h.io, DAEMON_FILE, 4096);
	while (n_others < 2) {
		uint16_t first = (uint16_t)(get_le16(sqe.cid));

		assert_true(raw_receive(&h.io, &cqe, PATIENCE_MS));
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
		if (get_le16(cqe.cid) >= first)
			n_others++;
		else
			n_held++;
		assert_true(n_held < DEPTH - 2);
	}
	sqe = raw_sqe(&h.admin, NVME_ADMIN_IDENTIFY, 0);
	sqe.cdw10 = put_le32(1);
	raw_describe(&h.admin, &sqe, 0, 4096);
	assert_int_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	sqe = raw_sqe(&h.admin, NVME_ADMIN_KEEP_ALIVE, 0);
	assert_int_equal(raw_run(&h.admin, &sqe, NULL, 0, &cqe), NVME_OK);
	limit_rate("nsid: 1, ram: 16", NULL);
	assert_true(raw_collect(&h.io, DEPTH - 2 - n_held, PATIENCE_MS));
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void held_commands_can_be_aborted(void **state)
{
	struct raw_host h;
	struct nvme_sqe abort;
	struct nvme_cqe cqe;
	uint16_t victim;

	raw_host_open(&h, d.port);
	limit_rate("nsid: 1, ram: 16", SLOW);
	for (unsigned i = 0; i < DEPTH; i++)
		send_read(&h.io, DAEMON_RAM, 512);
	victim = (uint16_t)(h.io.next_cid - 1); /* the last in line */
	abort = raw_sqe(&h.admin, NVME_ADMIN_ABORT, 0);
	abort.cdw10 = put_le32((uint32_t)victim << 16 | 1);
	assert_int_equal(raw_run(&h.admin, &abort, NULL, 0, &cqe), NVME_OK);
	assert_int_equal(get_le32(cqe.dw0) & 1, 0);
	do
		assert_true(raw_receive(&h.io, &cqe, PATIENCE_MS));
	while (get_le16(cqe.cid) != victim);
	assert_int_equal(nvme_status_code(get_nvme_status(cqe.status)), NVME_ABORTED_BY_REQUEST);
	/* The other commands are in line when the connection ends. */
	raw_host_close(&h);
	daemon_wait_empty(&d);
	limit_rate("nsid: 1, ram: 16", NULL);
}

/* Writes with in-capsule data: they do not retain the receives that all hosts share. */
static void held_writes_leave_receives(void **state)
{
	struct raw_host hogs[3], other;
	char capsule[64 + 4096];

	memset(capsule, 0x5a, sizeof(capsule));
	limit_rate("nsid: 1, ram: 16", SLOW);
	for (unsigned i = 0; i < 3; i++) {
		raw_host_open_as(&hogs[i], d.port, i + 1);
		for (unsigned k = 0; k < DEPTH; k++) {
			struct nvme_sqe sqe = raw_sqe(&hogs[i].io, NVME_IO_WRITE, DAEMON_RAM);

			memset(&sqe.sgl, 0, sizeof(sqe.sgl));
			sqe.sgl.block.length = put_le32(4096);
			sqe.sgl.block.type = NVME_SGL_DATA_BLOCK_OFFSET;
			sqe.cdw10 = put_le32(8 * (i * DEPTH + k));
			sqe.cdw12 = put_le32(7);
			memcpy(capsule, &sqe, sizeof(sqe));
			raw_send(&hogs[i].io, capsule, sizeof(capsule));
		}
	}
	raw_host_open(&other, d.port);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(raw_io(&other.io, NVME_IO_READ, DAEMON_FILE, i, 1, 4096), NVME_OK);
	limit_rate("nsid: 1, ram: 16", NULL);
	for (unsigned i = 0; i < 3; i++)
		assert_true(raw_collect(&hogs[i].io, DEPTH, PATIENCE_MS));
	for (unsigned i = 0; i < 3 * DEPTH; i++) {
		assert_int_equal(raw_io(&other.io, NVME_IO_READ, DAEMON_RAM, 8 * i, 8, 4096),
				 NVME_OK);
		assert_memory_equal(other.io.data, capsule + 64, 4096);
	}
	for (unsigned i = 0; i < 3; i++)
		raw_host_close(&hogs[i]);
	raw_host_close(&other);
	daemon_wait_empty(&d);
}

/* ---- shares --------------------------------------------------------------------------------- */

/* A host that keeps so many reads of so many bytes outstanding. */
struct reader {
	struct raw_host h;
	unsigned depth, n_bytes, n_outstanding, n_done;
};

static void read_on(struct reader *reader)
{
	struct nvme_cqe cqe;

	while (reader->n_outstanding && raw_receive(&reader->h.io, &cqe, 0)) {
		assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
		reader->n_outstanding--;
		reader->n_done++;
	}
	assert_false(reader->h.io.is_dead);
	for (; reader->n_outstanding < reader->depth; reader->n_outstanding++)
		send_read(&reader->h.io, DAEMON_RAM, reader->n_bytes);
}

/* Waits until the first has read so many bytes more; restarts the counts. */
static void read_together(struct reader readers[2], uint64_t n_bytes)
{
	uint64_t end = clock_ns() + PATIENCE_MS * NSEC_PER_MSEC;

	readers[0].n_done = readers[1].n_done = 0;
	while ((uint64_t)readers[0].n_done * readers[0].n_bytes < n_bytes) {
		read_on(&readers[0]);
		read_on(&readers[1]);
		assert_true(clock_ns() < end);
		usleep(500);
	}
}

/* The host with few outstanding reads gets as much as the one with many, in the unit of the
 * rate. */
static void expect_equal(const char *qos, unsigned depth, unsigned n_bytes, bool is_bytes)
{
	struct reader readers[2] = {{.depth = 1, .n_bytes = 4096},
				    {.depth = depth, .n_bytes = n_bytes}};
	struct raw_host other;
	double n[2];

	raw_host_open(&readers[1].h, d.port);
	raw_host_open_admin(&other, d.port, RAW_SUBNQN); /* the next I/O queue has another poller */
	raw_host_open_as(&readers[0].h, d.port, 1);
	limit_rate("nsid: 1, ram: 16", qos);
	read_together(readers, N_READS / 2 * 4096); /* the burst, and reads from before the rate */
	read_together(readers, N_READS * 4096);
	for (unsigned i = 0; i < 2; i++)
		n[i] = readers[i].n_done * (is_bytes ? readers[i].n_bytes : 1.0);
	print_message("# %s: %.0f to %.0f\n", qos, n[0], n[1]);
	if (n[0] < 0.5 * n[1] || n[1] < 0.5 * n[0])
		fail_msg("%s, depth %u, %u bytes: %.0f to %.0f", qos, depth, n_bytes, n[0], n[1]);
	limit_rate("nsid: 1, ram: 16", NULL);
	for (unsigned i = 0; i < 2; i++)
		assert_true(raw_collect(&readers[i].h.io, readers[i].n_outstanding, PATIENCE_MS));
	raw_host_close(&readers[0].h);
	raw_host_close(&other);
	raw_host_close(&readers[1].h);
	daemon_wait_empty(&d);
}

/* A16. A host that is late for its turn loses it, and rightly. At rates this low the first reader
 * has a turn every 100 ms and may be as late each time, so a busy machine does not decide. */
static void depth_buys_no_operations(void **state)
{
	expect_equal("{iops: 20}", 28, 4096, false);
	expect_equal("{iops: 20}", 28, 131072, false);
}

static void depth_and_size_buy_no_bytes(void **state)
{
	expect_equal("{read_bandwidth: 80KiB}", 28, 4096, true);
	expect_equal("{read_bandwidth: 80KiB}", 28, 16384, true);
}

static int start_again_with_two(void **state)
{
	stop(state);
	daemon_start(&d, ", workers: 2");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_kept),
		cmocka_unit_test(others_are_not_held),
		cmocka_unit_test(held_commands_can_be_aborted),
		cmocka_unit_test(held_writes_leave_receives),
		cmocka_unit_test(depth_buys_no_operations),
		cmocka_unit_test(depth_and_size_buy_no_bytes),
		cmocka_unit_test_setup(depth_buys_no_operations, start_again_with_two),
		cmocka_unit_test(depth_and_size_buy_no_bytes),
	};

	return cmocka_run_group_tests_name("throttle", tests, start_small, stop);
}
