/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compare and Write of the initiator: a pair of commands that lie next to each other, which the
 * fake target checks, and that is never sent again once the target may have written.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/hostile_target/world.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum {
	PATIENCE_MS = 60000,
	PIECE = 1024,
	PIECE_MAX = 4096, /* 8 blocks of 512 */
	N_JOBS = 48,
};

static struct target target;
static struct client client;
static struct job job;
static uint8_t *buffer; /* of a pair: what is expected, and what shall be there */

static void begin_with(const char *const *args, bool has_windows)
{
	target_start(&target, 0, args);
	client_init(&client, target.port);
	client.config.has_windows = has_windows;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 2 * PIECE_MAX);
	assert_non_null(buffer);
}

static void begin(const char *const *args)
{
	begin_with(args, false);
}

static void end(void)
{
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	target_stop(&target);
}

static struct volume_status status(void)
{
	struct volume_status status;

	volume_get_status(client.volume, &status);
	return status;
}

/* In place of n bytes of `old`, `new`. */
static void start_swap(uint64_t offset, size_t n, uint8_t old, uint8_t new)
{
	memset(buffer, old, n);
	memset(buffer + n, new, n);
	job_start(&job, &client, VOLUME_COMPARE_AND_WRITE, offset, n, buffer);
}

static int swap(uint64_t offset, size_t n, uint8_t old, uint8_t new)
{
	start_swap(offset, n, old, new);
	return job_wait(&job, PATIENCE_MS);
}

/* All n bytes at offset are this. */
static void expect_data(uint64_t offset, size_t n, uint8_t value)
{
	uint8_t *in = volume_buffer_take(client.queue, n);

	assert_non_null(in);
	memset(in, ~value, n);
	assert_int_equal(do_io(&client, VOLUME_READ, offset, n, in), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(in[i], value);
	volume_buffer_give(client.queue, in);
}

/* ---- what it does ---- */

static void swap_some(size_t n)
{
	assert_int_equal(swap(8192, n, 0, 1), 0);
	expect_data(8192, n, 1);
	assert_int_equal(swap(8192, n, 0, 2), -EILSEQ);
	expect_data(8192, n, 1);
	memset(buffer, 1, n);
	buffer[n - 1] = 2; /* the last byte counts */
	assert_int_equal(do_io(&client, VOLUME_COMPARE_AND_WRITE, 8192, n, buffer), -EILSEQ);
	assert_int_equal(swap(8192, n, 1, 0), 0);
	expect_data(8192, n, 0);
}

static void test_swaps(void **state)
{
	static const char *const rooms[] = {"icd=4096", "icd=2048", "icd=0"};
	struct volume_info info;

	for (unsigned i = 0; i < 2 * ARRAY_LEN(rooms); i++) {
		begin_with(ARGS(rooms[i / 2]), i % 2);
		volume_get_info(client.volume, &info);
		assert_int_equal(info.max_compare_bytes, PIECE_MAX);
		swap_some(512);
		swap_some(PIECE_MAX);
		assert_int_equal(status().io_errors.n, 0); /* to differ is no failure */
		end();
	}
}

static void test_durable(void **state)
{
	static const enum volume_op ops[] = {VOLUME_COMPARE_AND_WRITE, VOLUME_WRITE,
					     VOLUME_WRITE_ZEROES};
	static const char *const modes[] = {"fua=2", "fua=1"};

	for (unsigned i = 0; i < 2; i++) {
		begin(ARGS(modes[i]));
		memset(buffer, 0, 2 * PIECE);
		for (unsigned j = 0; j < ARRAY_LEN(ops); j++) {
			bool has_data = ops[j] != VOLUME_WRITE_ZEROES;

			job_prepare(&job, &client, ops[j], 0, PIECE, has_data ? buffer : NULL);
			job.io.is_fua = i == 1;
			volume_io_submit(client.queue, &job.io);
			assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
		}
		end(); /* the target has seen FUA in each of them, or in none */
	}
}

static void test_limits(void **state)
{
	struct volume_info info;

	begin(ARGS("compare=2"));
	volume_get_info(client.volume, &info);
	assert_int_equal(info.max_compare_bytes, 1024);
	assert_int_equal(swap(0, 1024, 0, 1), 0);
	assert_int_equal(swap(0, 1536, 0, 1), -EINVAL);
	assert_int_equal(swap(0, 0, 0, 1), 0);
	end();
	begin(ARGS("compare=65535", "mdts=0")); /* MDTS holds as well */
	volume_get_info(client.volume, &info);
	assert_int_equal(info.max_compare_bytes, info.max_transfer_bytes);
	end();
}

static void test_unsupported(void **state)
{
	struct volume_info info;

	begin(ARGS("compare=0"));
	volume_get_info(client.volume, &info);
	assert_int_equal(info.max_compare_bytes, 0);
	assert_int_equal(swap(0, PIECE, 0, 1), -EOPNOTSUPP);
	end();
	begin(ARGS("crqsize=1")); /* no room for two commands, ever */
	assert_int_equal(swap(0, PIECE, 0, 1), -EOPNOTSUPP);
	expect_data(0, PIECE, 0);
	end();
}

/* ---- beside other I/O ---- */

static struct job jobs[N_JOBS];
static uint8_t *pieces[N_JOBS];

/* Pairs among writes and reads, in queues that have hardly room for one. */
static void swap_many(void)
{
	for (unsigned i = 0; i < N_JOBS; i++) {
		enum volume_op op = i % 3 == 0	 ? VOLUME_COMPARE_AND_WRITE
				    : i % 3 == 1 ? VOLUME_WRITE
						 : VOLUME_READ;

		pieces[i] = volume_buffer_take(client.queue, 2 * PIECE);
		assert_non_null(pieces[i]);
		memset(pieces[i], 0, 2 * PIECE);
		pieces[i][PIECE] = (uint8_t)(i + 1);
		job_start(&jobs[i], &client, op, (uint64_t)i * PIECE, PIECE, pieces[i]);
	}
	for (unsigned i = 0; i < N_JOBS; i++) {
		assert_int_equal(job_wait(&jobs[i], PATIENCE_MS), 0);
		volume_buffer_give(client.queue, pieces[i]);
	}
}

static void test_together(void **state)
{
	static const char *const queues[] = {"mqes=2", "mqes=3", "crqsize=2", "mqes=31"};

	for (unsigned i = 0; i < 2 * ARRAY_LEN(queues); i++) {
		begin_with(ARGS(queues[i / 2], i & 2 ? "icd=0" : "icd=4096"), i % 2);
		swap_many();
		end();
	}
}

static void test_two_paths(void **state)
{
	struct target other;

	target_start(&target, 0, NULL);
	target_start(&other, 0, ARGS("cntlid=1000"));
	client_init(&client, target.port);
	client.config.others[0] = client.config.address;
	client.config.others[0].in.sin_port = htons((uint16_t)other.port);
	client.config.n_others = 1;
	client.config.policy = VOLUME_POLICY_ROUND_ROBIN;
	client.config.n_queues = 2;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 2 * PIECE_MAX);
	while (!status().paths[0].n_queues_live || !status().paths[1].n_queues_live)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	swap_many();
	assert_true(status().paths[0].n_commands && status().paths[1].n_commands);
	end(); /* each target has seen whole pairs */
	target_stop(&other);
}

/* ---- what targets may answer ---- */

static void test_order(void **state)
{
	begin(ARGS("compare:1=late,300"));
	assert_int_equal(swap(0, PIECE, 0, 1), 0);
	expect_data(0, PIECE, 1);
	end();
	begin(ARGS("write:1=late,300"));
	assert_int_equal(swap(0, PIECE, 1, 2), -EILSEQ);
	end();
	begin_with(ARGS("write:1=late,300", "icd=0", "compare:1=invalidate"), true);
	assert_int_equal(swap(0, PIECE, 0, 2), 0);
	end();
}

/* Refused before it did anything: sent again. */
static void test_repeated(void **state)
{
	static const char *const rules[] = {"compare:1=status,21", "compare:1=status,302",
					    "write:1=status,303", "write:1=status,82"};

	for (unsigned i = 0; i < ARRAY_LEN(rules); i++) {
		begin(ARGS(rules[i]));
		assert_int_equal(swap(0, PIECE, 0, 1), 0);
		expect_data(0, PIECE, 1);
		assert_int_equal(status().io_errors.n, 0);
		end();
	}
}

/* It may have written, or failed for good. */
static void test_failed(void **state)
{
	static const struct {
		const char *rule;
		int error;
	} table[] = {
		{"compare:1=status,4281", -EIO}, {"write:1=status,4081", -ENOSPC},
		{"write:1=status,21", -EIO},	 {"write:1=status,4020", -EPERM},
		{"compare:1=status,400a", -EIO}, {"write:1=status,4285", -EIO},
	};

	for (unsigned i = 0; i < ARRAY_LEN(table); i++) {
		begin(ARGS(table[i].rule));
		assert_int_equal(swap(0, PIECE, 0, 1), table[i].error);
		assert_int_equal(status().io_errors.counts[VOLUME_COMPARE_AND_WRITE], 1);
		assert_string_equal(status().io_errors.last.operation, "compare and write");
		assert_int_equal(swap(0, PIECE, 0, 1), 0);
		assert_int_equal(client.n_lost, 0);
		end();
	}
}

/* Answers that cannot both be true. */
static void test_contradiction(void **state)
{
	static const char *const rules[] = {"compare:1=status,4285", "compare:1=status,4009",
					    "compare:1=status,4002"};

	for (unsigned i = 0; i < ARRAY_LEN(rules); i++) {
		begin(ARGS(rules[i], "write:1=status,0"));
		assert_int_equal(swap(0, PIECE, 0, 1), -EIO);
		assert_non_null(strstr(status().io_errors.last.words, "not compared"));
		assert_int_equal(swap(0, PIECE, 0, 1), 0);
		end();
	}
}

static void test_bad_answers(void **state)
{
	static const char *const rules[] = {"compare:1=duplicate", "write:1=duplicate",
					    "compare:1=wrong-cid", "write:1=wrong-cid",
					    "compare:1=short",	   "write:1=old-cid",
					    "compare:1=invalidate"};

	for (unsigned i = 0; i < ARRAY_LEN(rules); i++) {
		int r;

		begin(ARGS(rules[i]));
		r = swap(0, PIECE, 0, 1);
		/* Twice: the second answer may come when the pair is over. */
		assert_true(r == -ECONNRESET || (strstr(rules[i], "duplicate") && r == 0));
		expect_data(0, PIECE, 1);
		world_wait_lost(&client, 1);
		assert_int_equal(swap(0, PIECE, 1, 2), 0);
		end();
	}
}

/* ---- lost ---- */

/* Half of the answers never come. */
static void test_one_answer(void **state)
{
	static const char *const rules[] = {"compare:1=silence", "write:1=silence"};

	for (unsigned i = 0; i < 2 * ARRAY_LEN(rules); i++) {
		target_start(&target, 0, ARGS(rules[i / 2], "icd=0", "ccr=1"));
		client_init(&client, target.port);
		client.config.has_windows = i % 2;
		client.config.io_timeout_ns = 200 * NSEC_PER_MSEC;
		client_open_with_queue(&client);
		buffer = volume_buffer_take(client.queue, 2 * PIECE_MAX);
		assert_int_equal(swap(0, PIECE, 0, 1), -ECONNRESET);
		assert_int_equal(client.n_lost, 1);
		assert_non_null(strstr(status().io_errors.last.words, "done it or not"));
		expect_data(0, PIECE, 1); /* it was written */
		assert_int_equal(swap(0, PIECE, 1, 2), 0);
		end();
	}
}

static void lose_with(const char *rule, const char *reset)
{
	target_start(&target, 0, ARGS(rule, reset));
	client_init(&client, target.port);
	client.config.ctrl_loss_tmo_ns = UINT64_MAX;
	if (!*reset || strcmp(reset, "ccr=0") == 0)
		client.config.fence = VOLUME_FENCE_OFF;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 2 * PIECE_MAX);
	start_swap(0, PIECE, 0, 1);
}

/* Either outcome is possible; it is never sent a second time. */
static void test_lost(void **state)
{
	static const struct {
		const char *rule;
		uint8_t found;
	} table[] = {{"compare:1=disconnect", 0}, {"write:1=disconnect", 1}};

	for (unsigned i = 0; i < 2 * ARRAY_LEN(table); i++) {
		lose_with(table[i / 2].rule, i % 2 ? "ccr=1" : "ccr=0");
		assert_int_equal(job_wait(&job, PATIENCE_MS), -ECONNRESET);
		assert_int_equal(client.n_lost, 1);
		expect_data(0, PIECE, table[i / 2].found);
		assert_int_equal(swap(0, PIECE, table[i / 2].found, 2), 0);
		end();
	}
}

/* It ends only when the target is proven to be done with it: a read before could be too early. I/O
 * that overlaps comes after it. */
static void test_proof(void **state)
{
	struct job behind;

	lose_with("write:1=disconnect", "ccr=2");
	world_wait_lost(&client, 1);
	while (status().fencing.n_changes < 1 || status().n_queues_live < 1)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	job_start(&behind, &client, VOLUME_WRITE_ZEROES, 0, PIECE, NULL);
	write_and_read(&client, 1 << 20, PIECE, 3);
	assert_false(job.is_done || behind.is_done);
	target_say(&target, "finish-resets");
	assert_int_equal(job_wait(&job, PATIENCE_MS), -ECONNRESET);
	assert_int_equal(job_wait(&behind, PATIENCE_MS), 0);
	expect_data(0, PIECE, 0);
	end();
}

static void test_cancelled(void **state)
{
	lose_with("write:1=disconnect", "ccr=2");
	world_wait_lost(&client, 1);
	while (status().fencing.n_changes < 1 || status().n_queues_live < 1)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	assert_false(volume_io_cancel(client.queue, &job.io));
	assert_false(job.is_done);
	target_say(&target, "finish-resets");
	assert_int_equal(job_wait(&job, PATIENCE_MS), -ECANCELED);
	end();
}

/* The target does not come back: what was on the wire is unknown, what waited has failed. */
static void test_given_up(void **state)
{
	struct job waiting;

	target_start(&target, 0, ARGS("compare:1=exit"));
	client_init(&client, target.port);
	client.config.ctrl_loss_tmo_ns = 500 * NSEC_PER_MSEC;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 2 * PIECE_MAX);
	start_swap(0, PIECE, 0, 1);
	while (status().fencing.n_changes < 1) /* its queue pair is over */
		loop_turn(&world, NSEC_PER_MSEC);
	job_start(&waiting, &client, VOLUME_COMPARE_AND_WRITE, 8192, PIECE, buffer);
	assert_int_equal(job_wait(&job, PATIENCE_MS), -ECONNRESET);
	assert_int_equal(job_wait(&waiting, PATIENCE_MS), -EIO);
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	target_stop(&target);
}

/* One that was not sent before the loss is sent after it. */
static void test_held(void **state)
{
	begin(NULL);
	target_say(&target, "drop");
	world_wait_lost(&client, 1);
	assert_int_equal(swap(0, PIECE, 0, 1), 0);
	expect_data(0, PIECE, 1);
	end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_swaps),	  CASE(test_durable),	  CASE(test_limits),
		CASE(test_unsupported),	  CASE(test_together),	  CASE(test_two_paths),
		CASE(test_order),	  CASE(test_repeated),	  CASE(test_failed),
		CASE(test_contradiction), CASE(test_bad_answers), CASE(test_one_answer),
		CASE(test_lost),	  CASE(test_proof),	  CASE(test_cancelled),
		CASE(test_given_up),	  CASE(test_held),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_pairs", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
