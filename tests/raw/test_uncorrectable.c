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
	COMMANDS = 4002,	/* on each queue; whole pairs */
	COMMANDS_ON_DISK = 200, /* each Write Uncorrectable is saved */
	SOURCE = 100,		/* the block that Copy reads */
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

static void fill(struct raw_host *h, uint32_t nsid, char value)
{
	memset(h->io.data, value, block_of(nsid));
}

/* The block is whole, and holds one of these values. */
static void expect_one_of(struct raw_host *h, uint32_t nsid, const char *values, size_t n_values)
{
	assert_non_null(memchr(values, h->io.data[0], n_values));
	assert_memory_equal(h->io.data, h->io.data + 1, block_of(nsid) - 1);
}

static void put(struct raw_host *h, uint32_t nsid, uint64_t slba, char value)
{
	fill(h, nsid, value);
	assert_int_equal(io(h, NVME_IO_WRITE, nsid, slba), NVME_OK);
}

static void must_hold(struct raw_host *h, uint32_t nsid, uint64_t slba, char value)
{
	fill(h, nsid, (char)~value);
	assert_int_equal(io(h, NVME_IO_READ, nsid, slba), NVME_OK);
	expect_one_of(h, nsid, &value, 1);
}

static void send_write(struct raw_queue *q, uint8_t opcode, uint32_t nsid, unsigned fuse)
{
	struct nvme_sqe sqe = raw_blocks(q, opcode, nsid, 0, 1);

	sqe.flags |= (uint8_t)fuse;
	if (opcode != NVME_IO_WRITE_ZEROES)
		raw_describe(q, &sqe, 0, block_of(nsid));
	raw_send(q, &sqe, sizeof(sqe));
}

/* Pairs of Compare and Write, and after each a Write that makes a lost block valid. */
static void send_pair(struct raw_queue *q, uint32_t nsid, unsigned i)
{
	if (i % 3 == 0)
		send_write(q, NVME_IO_COMPARE, nsid, NVME_FLAGS_FUSE_FIRST);
	else if (i % 3 == 1)
		send_write(q, NVME_IO_WRITE, nsid, NVME_FLAGS_FUSE_SECOND);
	else
		send_write(q, NVME_IO_WRITE, nsid, 0);
}

static void send_copy(struct raw_queue *q, uint32_t nsid)
{
	struct nvme_copy_range *range = (struct nvme_copy_range *)(void *)(q->data + 8192);
	struct nvme_sqe sqe = raw_sqe(q, NVME_IO_COPY, nsid);

	*range = (struct nvme_copy_range){.slba = put_le64(SOURCE)};
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
	uint16_t first_cid;
	uint64_t deadline;
	enum nvme_status statuses[COMMANDS]; /* in the order in which they were sent */
};

static void lane_start(struct lane *lane, struct raw_queue *q,
		       void (*send)(struct raw_queue *q, uint32_t nsid, unsigned i))
{
	*lane = (struct lane){.q = q,
			      .send = send,
			      .first_cid = q->next_cid,
			      .deadline = clock_ns() + WAIT_MS * NSEC_PER_MSEC};
}

static void drive(struct lane *lane, uint32_t nsid, unsigned n_commands)
{
	struct nvme_cqe cqe;

	while (lane->n_sent < MIN(n_commands, lane->n_answered + DEPTH))
		lane->send(lane->q, nsid, lane->n_sent++);
	for (; raw_receive(lane->q, &cqe, 0); lane->n_answered++) {
		unsigned i = (uint16_t)(get_le16(cqe.cid) - lane->first_cid);

		assert_in_range(i, 0, lane->n_sent - 1);
		lane->statuses[i] = get_nvme_status(cqe.status);
	}
	assert_false(lane->q->is_dead || clock_ns() > lane->deadline);
}

static void all_succeed(const enum nvme_status *statuses, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(statuses[i], NVME_OK);
}

/* Compare fails while the block is lost, and the Write with it; else both are executed. */
static void both_halves_or_none(const enum nvme_status *statuses, unsigned n)
{
	for (unsigned i = 0; i < n; i += 3) {
		enum nvme_status second = NVME_OK;

		if (statuses[i] != NVME_OK) {
			assert_int_equal(statuses[i], NVME_UNRECOVERED_READ | NVME_DNR);
			second = NVME_ABORTED_FAILED_FUSED | NVME_DNR;
		}
		assert_int_equal(statuses[i + 1], second);
		assert_int_equal(statuses[i + 2], NVME_OK);
	}
}

/* Exclusive accesses of both pollers follow each other closely. */
struct race {
	uint32_t nsid;
	unsigned n_commands;
	void (*send)(struct raw_queue *q, uint32_t nsid, unsigned i);
	void (*check)(const enum nvme_status *statuses, unsigned n);
	char contents[3]; /* that the block may have at the end, unless it is lost */
};

static void run_lanes(const struct race *race, struct lane *writes, struct lane *losses)
{
	while (writes->n_answered < race->n_commands || losses->n_answered < race->n_commands) {
		drive(writes, race->nsid, race->n_commands);
		drive(losses, race->nsid, race->n_commands);
	}
	race->check(writes->statuses, race->n_commands);
	all_succeed(losses->statuses, race->n_commands);
}

/* A pair neither compares a lost block nor writes it. */
static void expect_lost(struct raw_host *h, uint32_t nsid)
{
	struct lane *pair = calloc(1, sizeof(*pair));

	assert_non_null(pair);
	lane_start(pair, &h->io, send_pair);
	while (pair->n_answered < 2)
		drive(pair, nsid, 2);
	assert_int_equal(pair->statuses[0], NVME_UNRECOVERED_READ | NVME_DNR);
	assert_int_equal(pair->statuses[1], NVME_ABORTED_FAILED_FUSED | NVME_DNR);
	free(pair);
	assert_int_equal(io(h, NVME_IO_READ, nsid, 0), NVME_UNRECOVERED_READ | NVME_DNR);
}

/* Lost or whole; then a Write makes it valid, with its data, and it can be lost again. */
static void check_block(struct raw_host *h, const struct race *race)
{
	enum nvme_status status = io(h, NVME_IO_READ, race->nsid, 0);

	if (status == NVME_OK)
		expect_one_of(h, race->nsid, race->contents, sizeof(race->contents));
	else
		assert_int_equal(status, NVME_UNRECOVERED_READ | NVME_DNR);
	put(h, race->nsid, 0, 'F');
	must_hold(h, race->nsid, 0, 'F');
	assert_int_equal(lose(h, race->nsid, 0, 1), NVME_OK);
	expect_lost(h, race->nsid);
	put(h, race->nsid, 0, 'F');
	must_hold(h, race->nsid, SOURCE, 'C');
}

static void run_race(const struct race *race)
{
	static struct lane writes, losses;
	struct raw_queue second;
	struct raw_host h;

	raw_host_open(&h, d.port);
	open_second(&h, &second);
	put(&h, race->nsid, SOURCE, 'C');
	put(&h, race->nsid, 0, 'W');
	lane_start(&writes, &h.io, race->send);
	lane_start(&losses, &second, send_uncorrectable);
	run_lanes(race, &writes, &losses);
	check_block(&h, race);
	raw_close(&second);
	raw_host_close(&h);
	daemon_wait_empty(&d);
}

static void writes_and_lost_blocks_race(void **state)
{
	run_race(&(struct race){DAEMON_RAM, COMMANDS, send_any, all_succeed, {'W', 'C', 0}});
}

static void they_race_on_a_disk(void **state)
{
	run_race(&(struct race){
		DAEMON_FILE, COMMANDS_ON_DISK, send_any, all_succeed, {'W', 'C', 0}});
}

static void pairs_and_lost_blocks_race(void **state)
{
	run_race(&(struct race){
		DAEMON_RAM, COMMANDS, send_pair, both_halves_or_none, {'W', 'W', 'W'}});
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
