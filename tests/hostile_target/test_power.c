/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target has lost power: its SMART log counts another unsafe shutdown when the host is back. If
 * acknowledged writes were not flushed, the next Flush fails, once. If all were flushed, nothing
 * fails.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "tests/hostile_target/world.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct target target;
static struct client client;
static void *buffer;

static void begin(const char *const *args)
{
	target_start(&target, 0, args);
	client_init(&client, target.port);
	client.config.n_queues = 2;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 65536);
	assert_non_null(buffer);
	memset(buffer, 0x5a, 65536);
}

static void end(void)
{
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	target_stop(&target);
}

static void start_again(const char *const *args)
{
	target_start(&target, target.port, args);
	client_wait_state(&client, VOLUME_LIVE, 20000);
}

static void restart(const char *const *args)
{
	target_kill(&target);
	client_wait_state(&client, VOLUME_RECONNECTING, 20000);
	start_again(args);
}

static void do_write(void)
{
	assert_int_equal(do_io(&client, VOLUME_WRITE, 0, 4096, buffer), 0);
}

static int do_fua(void)
{
	struct job job;

	job_prepare(&job, &client, VOLUME_WRITE, 0, 4096, buffer);
	job.io.is_fua = true;
	volume_io_submit(client.queue, &job.io);
	return job_wait(&job, 20000);
}

static int do_flush(void)
{
	return do_io(&client, VOLUME_FLUSH, 0, 0, NULL);
}

static struct volume_status status(void)
{
	struct volume_status status;

	volume_get_status(client.volume, &status);
	return status;
}

/* The next Flush fails with the reason; the one after it succeeds. */
static void expect_report(void)
{
	uint64_t n = status().io_errors.n;

	assert_non_null(strstr(status().last_error.message, "the target has lost power"));
	assert_int_equal(do_flush(), -EIO);
	assert_int_equal(status().io_errors.n, n + 1);
	assert_non_null(strstr(status().io_errors.last.words, "lost power"));
	assert_int_equal(do_flush(), 0);
}

static void expect_no_report(void)
{
	assert_null(strstr(status().last_error.message, "lost power"));
	assert_int_equal(do_flush(), 0);
	assert_int_equal(status().io_errors.n, 0);
}

/* ---- losses --------------------------------------------------------------------------------- */

static void acknowledged_writes_are_lost(void **state)
{
	begin(NULL);
	do_write();
	restart(ARGS("unsafe=1"));
	/* Reads and writes succeed: only the promise of a Flush is broken. */
	assert_int_equal(do_io(&client, VOLUME_READ, 0, 4096, buffer), 0);
	do_write();
	expect_report();
	end();
}

static void every_change_counts(void **state)
{
	static const enum volume_op ops[] = {VOLUME_WRITE_ZEROES, VOLUME_TRIM};

	for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
		begin(NULL);
		assert_int_equal(do_io(&client, ops[i], 0, 65536, NULL), 0);
		restart(ARGS("unsafe=1"));
		expect_report();
		end();
	}
}

static void a_flush_that_waited_fails(void **state)
{
	struct job job;

	begin(NULL);
	do_write();
	target_kill(&target);
	client_wait_state(&client, VOLUME_RECONNECTING, 20000);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	start_again(ARGS("unsafe=1"));
	assert_int_equal(job_wait(&job, 20000), -EIO);
	assert_int_equal(do_flush(), 0);
	end();
}

/* A write with FUA makes no promise about other writes, so it does not consume the failure. */
static void a_write_with_fua_takes_no_report(void **state)
{
	begin(NULL);
	do_write();
	restart(ARGS("unsafe=1"));
	assert_int_equal(do_fua(), 0);
	expect_report();
	end();
}

/* Only writes after the last successful Flush count as unflushed. */
static void after_a_flush_it_counts_again(void **state)
{
	begin(NULL);
	do_write();
	assert_int_equal(do_flush(), 0);
	do_write();
	restart(ARGS("unsafe=3"));
	expect_report();
	do_write();
	restart(ARGS("unsafe=4"));
	expect_report();
	end();
}

static void a_flush_that_failed_saves_nothing(void **state)
{
	begin(ARGS("flush:1=status,4280")); /* write fault, DNR */
	do_write();
	assert_int_equal(do_flush(), -EIO);
	restart(ARGS("unsafe=1"));
	expect_report();
	end();
}

/* A target whose record was lost with the power counts from 0 again. */
static void the_record_of_the_target_is_lost(void **state)
{
	begin(ARGS("cycles=7", "unsafe=2"));
	do_write();
	restart(ARGS("cycles=1", "unsafe=2"));
	expect_report();
	end();
}

static void known_again_after_a_gap(void **state)
{
	begin(ARGS("unsafe=1"));
	do_write();
	restart(ARGS("unsafe=2", "get-smart:1=status,4002"));
	assert_int_equal(status().io_errors.n, 0);
	restart(ARGS("unsafe=2"));
	expect_report();
	end();
}

/* ---- several queues ------------------------------------------------------------------------- */

static bool is_removed;

static void on_removed(void *context)
{
	is_removed = true;
}

static struct volume_queue *add_queue(void)
{
	struct volume_queue *queue;

	assert_int_equal(volume_queue_add(client.volume, &world, &queue), 0);
	return queue;
}

static void remove_queue(struct volume_queue *queue)
{
	is_removed = false;
	volume_queue_remove(queue, on_removed, NULL);
	world_wait(&is_removed, 20000, "the removal of a queue");
}

static int flush_by(struct volume_queue *queue)
{
	struct volume_queue *own = client.queue;
	int r;

	client.queue = queue;
	r = do_flush();
	client.queue = own;
	return r;
}

static void a_flush_covers_all_queues(void **state)
{
	struct volume_queue *other;

	begin(NULL);
	other = add_queue();
	do_write();
	assert_int_equal(flush_by(other), 0);
	restart(ARGS("unsafe=1"));
	expect_no_report();
	do_write();
	restart(ARGS("unsafe=2"));
	assert_int_equal(flush_by(other), -EIO);
	assert_int_equal(do_flush(), 0);
	remove_queue(other);
	end();
}

/* The write is acknowledged after the Flush was sent, so that Flush does not cover it. */
static void a_flush_does_not_cover_later_answers(void **state)
{
	struct volume_queue *other;
	struct job job;

	begin(NULL);
	other = add_queue();
	assert_int_equal(flush_by(other), 0); /* it is connected now */
	/* Both are sent before the loop turns and receives a response. */
	job_start(&job, &client, VOLUME_WRITE, 0, 4096, buffer);
	assert_int_equal(flush_by(other), 0);
	assert_int_equal(job_wait(&job, 20000), 0);
	restart(ARGS("unsafe=1"));
	expect_report();
	remove_queue(other);
	end();
}

static void a_queue_is_removed(void **state)
{
	struct volume_queue *first;

	begin(NULL);
	do_write();
	volume_buffer_give(client.queue, buffer);
	first = client.queue;
	client.queue = add_queue();
	remove_queue(first);
	buffer = volume_buffer_take(client.queue, 65536);
	restart(ARGS("unsafe=1"));
	expect_report();
	end();
}

/* ---- no false alarm ------------------------------------------------------------------------- */

static void a_restart_is_no_loss(void **state)
{
	begin(ARGS("cycles=1", "unsafe=1"));
	do_write();
	restart(ARGS("cycles=2", "unsafe=1"));
	expect_no_report();
	end();
}

static void nothing_was_unflushed(void **state)
{
	begin(NULL);
	restart(ARGS("unsafe=1"));
	expect_no_report();
	do_write();
	assert_int_equal(do_flush(), 0);
	assert_int_equal(do_fua(), 0);
	assert_int_equal(do_io(&client, VOLUME_READ, 0, 65536, buffer), 0);
	restart(ARGS("unsafe=2"));
	expect_no_report();
	end();
}

static void without_a_volatile_cache(void **state)
{
	begin(ARGS("no-vwc"));
	do_write();
	restart(ARGS("no-vwc", "unsafe=1"));
	expect_no_report();
	end();
}

static void targets_without_smart(void **state)
{
	begin(ARGS("get-smart=status,4002"));
	do_write();
	restart(ARGS("get-smart=status,4002"));
	expect_no_report();
	do_write();
	/* At the first connection there is no earlier count to compare with. */
	restart(ARGS("unsafe=5"));
	expect_no_report();
	end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(acknowledged_writes_are_lost),
		CASE(every_change_counts),
		CASE(a_flush_that_waited_fails),
		CASE(a_write_with_fua_takes_no_report),
		CASE(after_a_flush_it_counts_again),
		CASE(a_flush_that_failed_saves_nothing),
		CASE(the_record_of_the_target_is_lost),
		CASE(known_again_after_a_gap),
		CASE(a_flush_covers_all_queues),
		CASE(a_flush_does_not_cover_later_answers),
		CASE(a_queue_is_removed),
		CASE(a_restart_is_no_loss),
		CASE(nothing_was_unflushed),
		CASE(without_a_volatile_cache),
		CASE(targets_without_smart),
	};

	return cmocka_run_group_tests_name("power", tests, NULL, NULL);
}
