/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator repeats a write only after proof that its first copy is over. The fake target ends
 * with 3 if a write that got no answer is sent again before: so each case that ends with 0 has
 * waited. Reads and other writes go on meanwhile.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/io/unproven.h"
#include "tests/hostile_target/world.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum {
	PATIENCE_MS = 60000,
	FAR = 1 << 20,
};

static struct target target;
static struct client client;
static struct job lost;
static uint8_t *buffer, *other;

static void open_target(const char *const *args)
{
	target_start(&target, 0, args);
	client_init(&client, target.port);
	client.config.ctrl_loss_tmo_ns = UINT64_MAX;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 4096);
	other = volume_buffer_take(client.queue, 4096);
	fill_pattern(buffer, 4096, 1);
}

static void begin(const char *const *args)
{
	open_target(args);
	job_start(&lost, &client, VOLUME_WRITE, 0, 4096, buffer);
	world_wait_lost(&client, 1);
}

static void end_with(int code)
{
	volume_buffer_give(client.queue, buffer);
	volume_buffer_give(client.queue, other);
	client_close(&client);
	target_stop_with(&target, code);
}

static void end(void)
{
	end_with(0);
}

static struct volume_fencing fencing(void)
{
	struct volume_status status;

	volume_get_status(client.volume, &status);
	return status.fencing;
}

static void wait_fencing(enum fencing_state state)
{
	uint64_t deadline = clock_ns() + PATIENCE_MS * NSEC_PER_MSEC;

	while (fencing().state != state) {
		if (clock_ns() > deadline)
			fail_msg("fencing is %u, not %u", fencing().state, state);
		world_run(10);
	}
}

/* All that does not overlap with the write goes on; what does waits behind it. */
static void others_go_on(void)
{
	struct job second;
	uint8_t *in = volume_buffer_take(client.queue, 4096);

	fill_pattern(other, 4096, 2);
	job_start(&second, &client, VOLUME_WRITE, 2048, 2048, other);
	assert_int_equal(do_io(&client, VOLUME_READ, 0, 4096, in), 0);
	write_and_read(&client, FAR, 4096, 3);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	assert_false(lost.is_done);
	assert_false(second.is_done);
	assert_int_equal(fencing().n_changes, 2);
	assert_int_equal(fencing().n_associations, 1);
	assert_true(volume_io_cancel(client.queue, &second.io));
	assert_int_equal(job_wait(&second, PATIENCE_MS), -ECANCELED);
	volume_buffer_give(client.queue, in);
}

static void over(enum fencing_way way, enum fencing_state state)
{
	assert_int_equal(job_wait(&lost, PATIENCE_MS), 0);
	wait_fencing(state);
	assert_int_equal(fencing().last_way, way);
	assert_int_equal(fencing().n_by[way], 1);
	assert_int_equal(fencing().n_changes, 0);
	assert_int_equal(client.n_lost, 1);
}

static void proven(enum fencing_way way)
{
	over(way, FENCING_PROVEN);
}

static void test_immediate(void **state)
{
	begin(ARGS("ccr=1", "write:1=disconnect"));
	proven(FENCING_RESET);
	end();
}

static void test_late_answer(void **state)
{
	begin(ARGS("ccr=1", "write:1=disconnect", "cross-reset:1=late,700"));
	wait_fencing(FENCING_ASKS);
	others_go_on();
	proven(FENCING_RESET);
	end();
}

/* Pages that say nothing about this controller, or that it is not over, or that others are. */
static void test_log(void **state)
{
	static const char *const modes[] = {"ccr=2", "ccr=3"};

	for (unsigned i = 0; i < ARRAY_LEN(modes); i++) {
		begin(ARGS(modes[i], "write:1=disconnect", "get-resets:2=garbage"));
		wait_fencing(FENCING_ASKS);
		others_go_on();
		world_run(300);
		assert_false(lost.is_done);
		target_say(&target, "finish-resets");
		proven(FENCING_RESET);
		end();
	}
}

/* Busy, full, at its limit: asked again, until it is answered. */
static void test_asks_again(void **state)
{
	begin(ARGS("ccr=1", "write:1=disconnect", "cross-reset:1=status,413f",
		   "cross-reset:2=status,4140", "cross-reset:3=status,4141"));
	proven(FENCING_RESET);
	end();
}

/* Refused, failed, not known: by time, which the target measures, too. */
static void test_time(void **state)
{
	static const char *const args[][2] = {
		{"ccr=1", "cross-reset=status,4002"},
		{"ccr=1", "cross-reset=status,4001"},
		{"ccr=4", "seed=1"},
		{"ccr=2", "seed=1"},
		{"ccr=0", "seed=1"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(args); i++) {
		target_start(&target, 0,
			     ARGS("cqt=700", "write:1=disconnect", args[i][0], args[i][1]));
		client_init(&client, target.port);
		client.config.keep_alive_ns = 200 * NSEC_PER_MSEC;
		client_open_with_queue(&client);
		buffer = volume_buffer_take(client.queue, 4096);
		job_start(&lost, &client, VOLUME_WRITE, 0, 4096, buffer);
		assert_int_equal(job_wait(&lost, PATIENCE_MS), 0);
		wait_fencing(FENCING_PROVEN);
		assert_int_equal(fencing().last_way, FENCING_TIME);
		volume_buffer_give(client.queue, buffer);
		client_close(&client);
		target_stop(&target);
	}
}

/* A target with neither: its new association is trusted. And --fence=off asks nothing. */
static void test_neither(void **state)
{
	begin(ARGS("write:1=disconnect"));
	over(FENCING_CONNECT, FENCING_TRUSTED);
	end();
	begin(ARGS("ccr=1", "write:1=disconnect", "cross-reset=status,4002"));
	over(FENCING_CONNECT, FENCING_TRUSTED);
	end_with(3); /* the target knows better */
}

static void test_off(void **state)
{
	target_start(&target, 0, ARGS("ccr=1", "write:1=disconnect", "cross-reset=disconnect"));
	client_init(&client, target.port);
	client.config.fence = VOLUME_FENCE_OFF;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 4096);
	assert_int_equal(do_io(&client, VOLUME_WRITE, 0, 4096, buffer), 0);
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	target_stop_with(&target, 3); /* the target notices */
}

/* The association that asks is lost, too, again and again: its successor asks about all. */
static void test_lost_again(void **state)
{
	begin(ARGS("ccr=1", "write:1=disconnect", "cross-reset:1=disconnect",
		   "cross-reset:2=disconnect", "cross-reset:4=disconnect",
		   "cross-reset:6=disconnect"));
	assert_int_equal(job_wait(&lost, PATIENCE_MS), 0);
	wait_fencing(FENCING_PROVEN);
	assert_true(fencing().n_by[FENCING_RESET] >= 3);
	end();
}

/* More losses than the table holds: the volume then changes nothing until one is proven. */
static void test_many_losses(void **state)
{
	struct job more;

	begin(ARGS("ccr=2", "write:1=disconnect"));
	for (unsigned i = 2; i <= 20; i++) {
		client_wait_state(&client, VOLUME_LIVE, PATIENCE_MS);
		target_say(&target, "drop");
		world_wait_lost(&client, i);
	}
	assert_true(fencing().n_associations <= UNPROVEN_MAX);
	job_start(&more, &client, VOLUME_WRITE, FAR, 4096, other);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	assert_false(more.is_done || lost.is_done);
	target_say(&target, "finish-resets");
	assert_int_equal(job_wait(&more, PATIENCE_MS), 0);
	assert_int_equal(job_wait(&lost, PATIENCE_MS), 0);
	end();
}

/* A cancelled write ends only with the proof: until then its range is not its user's. */
static void test_cancelled(void **state)
{
	begin(ARGS("ccr=2", "write:1=disconnect"));
	wait_fencing(FENCING_ASKS);
	assert_false(volume_io_cancel(client.queue, &lost.io));
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	assert_false(lost.is_done);
	target_say(&target, "finish-resets");
	assert_int_equal(job_wait(&lost, PATIENCE_MS), -ECANCELED);
	end();
}

/* Both are sent again once both are proven to be over, in their old order: what the target says to
 * the first one that comes is the answer of the first. */
static void test_order(void **state)
{
	struct job second;

	open_target(ARGS("ccr=2", "write:1=hold", "write:2=disconnect", "write:3=status,4280"));
	job_start(&lost, &client, VOLUME_WRITE, 0, 4096, buffer);
	job_start(&second, &client, VOLUME_WRITE, FAR, 4096, other);
	world_wait_lost(&client, 1);
	wait_fencing(FENCING_ASKS);
	assert_int_equal(fencing().n_changes, 2);
	target_say(&target, "finish-resets");
	assert_int_equal(job_wait(&lost, PATIENCE_MS), -EIO);
	assert_int_equal(job_wait(&second, PATIENCE_MS), 0);
	end();
}

/* It fails without proof: no write goes on until there is proof, wherever it is. */
static void test_failed_without_proof(void **state)
{
	struct job next;

	target_start(&target, 0, ARGS("ccr=2", "write:1=disconnect", "cm-admin:2=silence"));
	client_init(&client, target.port);
	client.config.fast_io_fail_tmo_ns = 200 * NSEC_PER_MSEC;
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, 4096);
	assert_int_equal(do_io(&client, VOLUME_WRITE, 0, 4096, buffer), -EIO);
	client_wait_state(&client, VOLUME_LIVE, PATIENCE_MS);
	while (do_io(&client, VOLUME_READ, 0, 4096, buffer) == -EIO)
		;
	job_start(&next, &client, VOLUME_WRITE, FAR, 4096, buffer);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	assert_false(next.is_done);
	target_say(&target, "finish-resets");
	assert_int_equal(job_wait(&next, PATIENCE_MS), 0);
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	target_stop(&target);
}

static void read_file(const char *name, char *words, size_t n)
{
	FILE *f = fopen(name, "re");
	size_t got;

	assert_non_null(f);
	got = fread(words, 1, n - 1, f);
	words[got] = '\0';
	fclose(f);
}

/* The file that a killed process leaves; here of one that was not killed, put back by
 * open_with_file. */
static char directory[32], path[64], text[2048];

static void open_volume(void)
{
	client_init(&client, target.port);
	snprintf(client.config.state_file, sizeof(client.config.state_file), "%s", path);
	client_open_with_queue(&client);
}

/* The volume opens where a process with that file was killed. */
static void open_with_file(const char *words)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(words, f);
	fclose(f);
	open_volume();
}

static void close_and_look(void)
{
	client.is_removed = false;
	client_close(&client);
	assert_int_equal(access(path, F_OK), -1); /* all is proven, so nothing is left to tell */
}

static void leave_a_file(const char *const *args)
{
	strcpy(directory, "/tmp/rblk-proof-XXXXXX");
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/v.fence", directory);
	target_start(&target, 0, args);
	open_volume();
	read_file(path, text, sizeof(text));
	close_and_look();
}

static void remove_file(void)
{
	rmdir(directory);
	target_stop(&target);
}

static void test_successor(void **state)
{
	char damaged[2048];
	struct job job;

	leave_a_file(ARGS("ccr=2"));
	open_with_file(text);
	buffer = volume_buffer_take(client.queue, 4096);
	job_start(&job, &client, VOLUME_WRITE, 0, 4096, buffer);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	wait_fencing(FENCING_ASKS);
	assert_false(job.is_done);
	target_say(&target, "finish-resets");
	assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
	volume_buffer_give(client.queue, buffer);
	close_and_look();

	/* Any part of it, and nonsense. */
	for (size_t n = 0; n < strlen(text); n += 23) {
		snprintf(damaged, sizeof(damaged), "%.*s", (int)n, text);
		open_with_file(damaged);
		write_and_read(&client, 0, 4096, 1);
		close_and_look();
	}
	remove_file();
}

/* An earlier process wrote by another address. The target has neither reset nor quiesce time, so
 * its answer to Connect says nothing of that: it is unknown, until the administrator says more. */
static void test_unknown(void **state)
{
	char elsewhere[ADDR_STRING_MAX], now[ADDR_STRING_MAX], *at;
	union addr waits_for;
	struct error error;
	struct job job;

	leave_a_file(ARGS("ccr=0"));
	snprintf(elsewhere, sizeof(elsewhere), "127.0.0.1:%u", target.port);
	at = strstr(text, elsewhere);
	assert_non_null(at);
	at[strlen("127.0.0.")] = '9';
	open_with_file(text);
	buffer = volume_buffer_take(client.queue, 4096);
	job_start(&job, &client, VOLUME_WRITE, 0, 4096, buffer);
	wait_fencing(FENCING_UNKNOWN);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	assert_false(job.is_done);
	elsewhere[strlen("127.0.0.")] = '9';
	waits_for = fencing().waits_for;
	assert_string_equal(addr_format(now, &waits_for), elsewhere);
	assert_int_equal(volume_path_leave(client.volume, &waits_for, true, &error), 0);
	assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
	wait_fencing(FENCING_TRUSTED);
	assert_int_equal(fencing().last_way, FENCING_WORD);
	volume_buffer_give(client.queue, buffer);
	close_and_look();
	remove_file();
}

/* The same address, also where the file has none, as of an earlier version: Connect is trusted. */
static void test_same_address(void **state)
{
	char *at;

	leave_a_file(ARGS("ccr=0"));
	for (unsigned i = 0; i < 2; i++) {
		open_with_file(text);
		write_and_read(&client, 0, 4096, 1);
		wait_fencing(FENCING_TRUSTED);
		assert_int_equal(fencing().last_way, FENCING_CONNECT);
		close_and_look();
		at = strstr(text, " 127.0.0.1:");
		if (at)
			strcpy(at, "\n");
	}
	remove_file();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_immediate),  CASE(test_late_answer), CASE(test_log),
		CASE(test_asks_again), CASE(test_time),	       CASE(test_neither),
		CASE(test_off),	       CASE(test_lost_again),  CASE(test_many_losses),
		CASE(test_cancelled),  CASE(test_order),       CASE(test_failed_without_proof),
		CASE(test_successor),  CASE(test_unknown),     CASE(test_same_address),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_proof", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
