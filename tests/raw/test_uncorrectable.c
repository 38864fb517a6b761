/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write Uncorrectable against all commands that make a block readable, at the same time and on two
 * pollers; and more ranges than can be kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/raw/group.h"
#include "tests/raw/host.h"

enum {
	WAIT_MS = 60000,
	DEPTH = 12,
	COMMANDS = 4000,	/* on each queue */
	COMMANDS_ON_DISK = 200, /* each Write Uncorrectable is saved */
	RANGES_MAX = 1024,	/* that Write Uncorrectable may make */
	MANY_RANGES = 1100,	/* that writes make */
	BIG_RAM_BLOCKS = 65536,
};

static unsigned block_of(uint32_t nsid)
{
	return nsid == DAEMON_RAM ? 512 : 4096;
}

static void open_second(struct raw_host *h, struct raw_queue *q)
{
	struct raw_connect c;
	struct nvme_cqe cqe;

	assert_int_equal(raw_open(q, d.port, 2, 32), 0);
	raw_connect_init(&c, q, 2, 31, h->cntlid);
	assert_int_equal(raw_connect(q, &c, &cqe), NVME_OK);
}

/* One block, through q->data at 0. */
static enum nvme_status io(struct raw_host *h, uint8_t opcode, uint32_t nsid, uint64_t slba)
{
	bool has_data = opcode == NVME_IO_READ || opcode == NVME_IO_WRITE;

	return raw_io(&h->io, opcode, nsid, slba, 1, has_data ? block_of(nsid) : 0);
}

static enum nvme_status lose(struct raw_host *h, uint32_t nsid, uint64_t slba, unsigned n_blocks)
{
	return raw_io(&h->io, NVME_IO_WRITE_UNCORRECTABLE, nsid, slba, n_blocks, 0);
}

/* ---- at the same time ----------------------------------------------------------------------- */

static void send_write(struct raw_queue *q, uint8_t opcode, uint32_t nsid, unsigned fuse)
{
	struct nvme_sqe sqe = raw_blocks(q, opcode, nsid, 0, 1);

	sqe.flags |= (uint8_t)fuse;
	if (opcode != NVME_IO_WRITE_ZEROES)
		raw_describe(q, &sqe, 0, block_of(nsid));
	raw_send(q, &sqe, sizeof(sqe));
}

/* Of pairs of Compare and Write, one after the other. */
static void send_half(struct raw_queue *q, uint32_t nsid, unsigned i)
{
	if (i % 2 == 0)
		send_write(q, NVME_IO_COMPARE, nsid, NVME_FLAGS_FUSE_FIRST);
	else
		send_write(q, NVME_IO_WRITE, nsid, NVME_FLAGS_FUSE_SECOND);
}

static void send_copy(struct raw_queue *q, uint32_t nsid)
{
	struct nvme_copy_range *range = (struct nvme_copy_range *)(void *)(q->data + 8192);
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_COPY, nsid);

	*range = (struct nvme_copy_range){.slba = put_le64(100)};
	raw_describe(q, &sqe, 8192, sizeof(*range));
	raw_send(q, &sqe, sizeof(sqe));
}

static void send_any(struct raw_queue *q, uint32_t nsid, unsigned i)
{
	if (i % 3 == 0)
		send_write(q, NVME_IO_WRITE, nsid, 0);
	else if (i % 3 == 1)
		send_write(q, NVME_IO_WRITE_ZEROES, nsid, 0);
	else
		send_copy(q, nsid);
}

static void send_uncorrectable(struct raw_queue *q, uint32_t nsid, unsigned i)
{
	struct nvme_sqe sqe = raw_blocks(q, NVME_IO_WRITE_UNCORRECTABLE, nsid, 0, 1);

	raw_send(q, &sqe, sizeof(sqe));
}

/* A queue that is kept full. */
struct lane {
	struct raw_queue *q;
	void (*send)(struct raw_queue *q, uint32_t nsid, unsigned i);
	unsigned n_sent, n_answered;
};

static void drive(struct lane *lane, uint32_t nsid, unsigned n_commands, bool may_fail)
{
	struct nvme_cqe cqe;

	while (lane->n_sent < MIN(n_commands, lane->n_answered + DEPTH))
		lane->send(lane->q, nsid, lane->n_sent++);
	for (; raw_receive(lane->q, &cqe, 0); lane->n_answered++)
		if (!may_fail)
			assert_int_equal(get_nvme_status(cqe.status), NVME_OK);
}

/* Exclusive accesses of both pollers follow each other closely. */
static void race(uint32_t nsid, void (*send)(struct raw_queue *q, uint32_t nsid, unsigned),
		 unsigned n_commands, bool may_fail)
{
	uint64_t deadline = clock_ns() + WAIT_MS * NSEC_PER_MSEC;
	struct raw_queue second;
	struct raw_host h;
	struct lane writes = {&h.io, send}, losses = {&second, send_uncorrectable};

	raw_host_open(&h, d.port);
	open_second(&h, &second);
	while (writes.n_answered < n_commands || losses.n_answered < n_commands) {
		drive(&writes, nsid, n_commands, may_fail);
		drive(&losses, nsid, n_commands, false);
		assert_false(h.io.is_dead || second.is_dead || clock_ns() > deadline);
	}
	assert_int_equal(io(&h, NVME_IO_WRITE, nsid, 0), NVME_OK);
	assert_int_equal(io(&h, NVME_IO_READ, nsid, 0), NVME_OK);
	raw_close(&second);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void writes_and_lost_blocks_race(void **state)
{
	race(DAEMON_RAM, send_any, COMMANDS, false);
}

static void they_race_on_a_disk(void **state)
{
	race(DAEMON_FILE, send_any, COMMANDS_ON_DISK, false);
}

/* Compare fails while the block is lost, and the Write with it; else both are executed. */
static void pairs_and_lost_blocks_race(void **state)
{
	race(DAEMON_RAM, send_half, COMMANDS, true);
}

/* ---- too many ------------------------------------------------------------------------------- */

static void expect_read(struct raw_host *h, uint32_t nsid, uint64_t slba, bool is_lost)
{
	assert_int_equal(io(h, NVME_IO_READ, nsid, slba),
			 is_lost ? NVME_UNRECOVERED_READ | NVME_DNR : NVME_OK);
}

/* Another host's data is on the medium: its Write must succeed, and it must read back its data. */
static void a_full_set_fails_no_write(void **state)
{
	enum {
		RANGE = 10000, /* of three blocks */
	};
	struct raw_host h, other;

	raw_host_open(&h, d.port);
	raw_host_open_as(&other, d.port, 1);
	assert_int_equal(lose(&h, DAEMON_RAM, RANGE, 3), NVME_OK);
	for (unsigned i = 0; i < RANGES_MAX - 1; i++)
		assert_int_equal(lose(&h, DAEMON_RAM, 2 * i, 1), NVME_OK);
	assert_int_equal(lose(&h, DAEMON_RAM, RANGE + 10, 1), NVME_COMMAND_SIZE_LIMIT | NVME_DNR);
	assert_int_equal(lose(&h, DAEMON_RAM, 0, 2), NVME_OK); /* no range more */
	assert_int_equal(io(&other, NVME_IO_WRITE, DAEMON_RAM, RANGE + 1), NVME_OK);
	expect_read(&other, DAEMON_RAM, RANGE, true);
	expect_read(&other, DAEMON_RAM, RANGE + 1, false);
	expect_read(&other, DAEMON_RAM, RANGE + 2, true);
	expect_read(&other, DAEMON_RAM, RANGE + 10, false);
	assert_int_equal(raw_io(&h.io, NVME_IO_WRITE_ZEROES, DAEMON_RAM, 0, RANGE + 3, 0), NVME_OK);
	raw_host_close(&h);
	raw_host_close(&other);
	daemon_wait_empty(&d);
}

/* One range of all blocks that a command can name, then every other block of it written. */
static void a_range_is_split_as_often_as_needed(void **state)
{
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(lose(&h, DAEMON_BIG_RAM, 0, BIG_RAM_BLOCKS), NVME_OK);
	for (unsigned i = 0; i < MANY_RANGES; i++)
		assert_int_equal(io(&h, NVME_IO_WRITE, DAEMON_BIG_RAM, 2 * i + 1), NVME_OK);
	expect_read(&h, DAEMON_BIG_RAM, 2 * MANY_RANGES - 2, true);
	expect_read(&h, DAEMON_BIG_RAM, 2 * MANY_RANGES - 1, false);
	/* No new range, the limit is exceeded already; filling a hole removes a range. */
	assert_int_equal(lose(&h, DAEMON_BIG_RAM, 0, 1), NVME_OK);
	assert_int_equal(lose(&h, DAEMON_BIG_RAM, 1, 1), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* rblkd reads back the remaining ranges when it starts again. */
static int start_two_pollers(void **state)
{
	return start_tuned(", workers: 2");
}

static void many_ranges_survive_a_restart(void **state)
{
	_autofclose_ FILE *f = NULL;
	char path[256], find[160];
	struct raw_host h;

	raw_host_open(&h, d.port);
	assert_int_equal(lose(&h, DAEMON_FILE, 0, 1), NVME_OK);
	raw_host_close(&h);
	daemon_wait_empty(&d);
	snprintf(find, sizeof(find), "grep -l uncorrectable %s/*-*-*-*.json", d.folder);
	f = popen(find, "r");
	assert_non_null(f);
	assert_non_null(fgets(path, sizeof(path), f));
	path[strcspn(path, "\n")] = 0;
	pclose(f);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "{\"version\": 1, \"uncorrectable\": [");
	for (unsigned i = 0; i < MANY_RANGES; i++)
		fprintf(f, "%s[%u, 2]", i ? ", " : "", 3 * i);
	fprintf(f, "]}");
	fclose(f);
	f = NULL;
	daemon_kill_and_restart(&d);
	raw_host_open(&h, d.port);
	expect_read(&h, DAEMON_FILE, 3 * MANY_RANGES - 3, true);
	expect_read(&h, DAEMON_FILE, 3 * MANY_RANGES - 1, false);
	assert_int_equal(io(&h, NVME_IO_WRITE, DAEMON_FILE, 3), NVME_OK);
	expect_read(&h, DAEMON_FILE, 3, false);
	expect_read(&h, DAEMON_FILE, 4, true);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

/* For the first test that needs a state directory, and those after it. */
static int keep_from_now_on(void **state)
{
	daemon_stop(&d);
	return start_keeping(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_and_lost_blocks_race),
		cmocka_unit_test(pairs_and_lost_blocks_race),
		cmocka_unit_test(a_full_set_fails_no_write),
		cmocka_unit_test(a_range_is_split_as_often_as_needed),
		cmocka_unit_test_setup(they_race_on_a_disk, keep_from_now_on),
		cmocka_unit_test(many_ranges_survive_a_restart),
	};

	return cmocka_run_group_tests_name("uncorrectable", tests, start_two_pollers, stop);
}
