/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume with two paths, each to a fake target of its own. What the second target does ends its
 * path and nothing else; a path that leads elsewhere gets no I/O; a Flush goes by each path that
 * has brought writes.
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
	PATIENCE_MS = 20000,
	PIECE = 4096,
};

static struct target left, right;
static struct client client;
static void *buffer;

static struct volume_status status(void)
{
	struct volume_status status;

	volume_get_status(client.volume, &status);
	return status;
}

static enum volume_path_state state_of(unsigned path)
{
	return status().paths[path].state;
}

static void wait_path(unsigned path, enum volume_path_state state)
{
	uint64_t until = clock_ns() + 120 * NSEC_PER_SEC;

	while (state_of(path) != state && clock_ns() < until)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	if (state_of(path) != state)
		fail_msg("path %u is %s: %s", path, volume_path_state_name(state_of(path)),
			 status().paths[path].last_error.message);
}

/* Starts both targets, the right one with args. Round-robin: of two I/Os in a row each path gets
 * one. */
static void prepare(const char *const *args)
{
	const char *all[WORLD_ARGS] = {"cntlid=1000"};

	for (unsigned i = 0; args && args[i]; i++)
		all[i + 1] = args[i];
	target_start(&left, 0, NULL);
	target_start(&right, 0, all);
	client_init(&client, left.port);
	client.config.others[0] = client.config.address;
	client.config.others[0].in.sin_port = htons((uint16_t)right.port);
	client.config.n_others = 1;
	client.config.policy = VOLUME_POLICY_ROUND_ROBIN;
	client.config.n_queues = 2;
}

static void open_left(void)
{
	client_open_with_queue(&client);
	buffer = volume_buffer_take(client.queue, PIECE);
	assert_non_null(buffer);
	memset(buffer, 0x5a, PIECE);
}

static void open_both(void)
{
	open_left();
	wait_path(1, VOLUME_PATH_LIVE);
	while (status().paths[0].n_queues_live + status().paths[1].n_queues_live < 2)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
}

static void begin(const char *const *args)
{
	prepare(args);
	open_both();
}

static void end(void)
{
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	if (left.pid)
		assert_int_equal(target_stop(&left), 0);
	if (right.pid)
		target_stop(&right);
}

static int do_write(uint64_t offset)
{
	return do_io(&client, VOLUME_WRITE, offset, PIECE, buffer);
}

static int do_flush(void)
{
	return do_io(&client, VOLUME_FLUSH, 0, 0, NULL);
}

static void write_to_both(void)
{
	assert_int_equal(do_write(0), 0);
	assert_int_equal(do_write(PIECE), 0);
}

/* Later writes go by the left path alone: of two reads one was sent again, or none had to be. */
static void kill_right(void)
{
	target_kill(&right);
	wait_path(1, VOLUME_PATH_LOST);
	assert_int_equal(do_io(&client, VOLUME_READ, 0, PIECE, buffer), 0);
	assert_int_equal(do_io(&client, VOLUME_READ, 0, PIECE, buffer), 0);
}

/* ---- misbehaviour -------------------------------------------------------------------------- */

/* The two namespaces are not one, so what is read is not compared. */
static void survive(const char *rule)
{
	begin(ARGS(rule));
	for (unsigned i = 0; i < 8; i++) {
		if (do_io(&client, VOLUME_READ, i * PIECE, PIECE, buffer) || do_write(i * PIECE) ||
		    do_flush() || do_io(&client, VOLUME_WRITE_ZEROES, 0, PIECE, NULL))
			fail_msg("%s: I/O %u has failed", rule, i);
	}
	if (client.n_lost)
		fail_msg("%s: the volume was lost", rule);
	assert_int_equal(status().paths[0].n_losses, 0);
	assert_int_equal(status().io_errors.n, 0);
	end();
}

static void a_hostile_target_loses_its_path_alone(void **state)
{
	static const char *const rules[] = {
		"read:2=wrong-cid",	"write:2=old-cid",
		"flush:1=duplicate",	"zero:1=short",
		"read:3=invalidate",	"write:3=disconnect",
		"read:3=write-past",	"read:2=exit",
		"connect-io:1=garbage", "connect-io:1=disconnect",
		"aer:1=disconnect",
	};

	for (unsigned i = 0; i < ARRAY_LEN(rules); i++)
		survive(rules[i]);
}

static void refused_io_goes_elsewhere(void **state)
{
	survive("write:1=status,302"); /* ANA Inaccessible */
	survive("read:1=status,303");  /* ANA Transition */
	survive("write:2=status,19");  /* it came after the association had expired */
	survive("flush:1=status,302");
}

/* ---- paths to something else ---------------------------------------------------------------- */

static void refuse(const char *arg, enum volume_path_state state, const char *words)
{
	prepare(ARGS(arg));
	open_left();
	wait_path(1, state);
	if (!strstr(status().paths[1].last_error.message, words))
		fail_msg("%s: '%s'", arg, status().paths[1].last_error.message);
	write_to_both();
	assert_int_equal(status().paths[1].n_commands, 0);
	assert_int_equal(status().state, VOLUME_LIVE);
	assert_int_equal(status().n_paths_live, 1);
	end();
}

static void other_namespaces_are_refused(void **state)
{
	refuse("uuid=2", VOLUME_PATH_OTHER, "its identifier is another one");
	refuse("block_size=4096", VOLUME_PATH_OTHER, "its block size is another one");
	refuse("blocks=65528", VOLUME_PATH_OTHER, "it is smaller");
	refuse("blocks=65544", VOLUME_PATH_OTHER, "it is larger");
	refuse("cntlid=1", VOLUME_PATH_UNFIT, "give the same controller id, 1 by 127.0.0.1:");
	refuse("nqn=nqn.2026-01.test:other", VOLUME_PATH_DENIED, "subsystem");
}

static bool is_removed;

static void on_removed(void *context)
{
	is_removed = true;
}

/* A path that grants fewer queues than are in use has no lane for each of them. */
static void too_few_queues_are_refused(void **state)
{
	struct volume_queue *second;

	begin(NULL);
	assert_int_equal(volume_queue_add(client.volume, &world, &second), 0);
	kill_right();
	target_start(&right, right.port, ARGS("cntlid=1000", "queues=1"));
	wait_path(1, VOLUME_PATH_UNFIT);
	assert_non_null(
		strstr(status().paths[1].last_error.message, "grants 1 I/O queues by 127.0.0.1:"));
	write_to_both();
	is_removed = false;
	volume_queue_remove(second, on_removed, NULL);
	world_wait(&is_removed, PATIENCE_MS, "removing the second queue");
	wait_path(1, VOLUME_PATH_LIVE);
	end();
}

/* ---- Flush --------------------------------------------------------------------------------- */

static void a_flush_goes_where_writes_went(void **state)
{
	uint64_t n;

	begin(ARGS("flush:2=status,4281"));
	assert_int_equal(do_flush(), 0); /* by both: what an earlier process left is not known */
	write_to_both();
	assert_int_equal(do_flush(), -EIO); /* the right one could not */
	assert_int_equal(do_flush(), 0);
	n = status().paths[0].n_commands + status().paths[1].n_commands;
	assert_int_equal(do_flush(), 0);
	assert_int_equal(status().paths[0].n_commands + status().paths[1].n_commands, n + 1);
	write_to_both();
	assert_int_equal(do_flush(), 0);
	assert_int_equal(status().paths[0].n_commands + status().paths[1].n_commands, n + 5);
	end();
}

/* What the lost target had not flushed is lost: no Flush by the other path has covered it. */
static void a_path_that_lost_power_is_reported(void **state)
{
	begin(NULL);
	write_to_both();
	kill_right();
	assert_int_equal(do_flush(), 0);
	target_start(&right, right.port, ARGS("cntlid=1000", "unsafe=1"));
	wait_path(1, VOLUME_PATH_LIVE);
	assert_int_equal(do_flush(), -EIO);
	assert_non_null(strstr(status().io_errors.last.words, "lost power"));
	assert_int_equal(do_flush(), 0);
	end();
}

static void what_was_flushed_is_not_reported(void **state)
{
	begin(NULL);
	write_to_both();
	assert_int_equal(do_flush(), 0);
	kill_right();
	write_to_both();
	target_start(&right, right.port, ARGS("cntlid=1000", "unsafe=1"));
	wait_path(1, VOLUME_PATH_LIVE);
	assert_int_equal(do_flush(), 0);
	assert_int_equal(status().io_errors.n, 0);
	end();
}

/* ---- the last path ------------------------------------------------------------------------- */

static void the_volume_gives_up_after_the_last_path(void **state)
{
	struct job job;

	prepare(NULL);
	client.config.ctrl_loss_tmo_ns = NSEC_PER_SEC;
	open_both();
	kill_right();
	assert_int_equal(client.n_lost, 0);
	write_to_both();
	target_kill(&left);
	client_wait_state(&client, VOLUME_RECONNECTING, PATIENCE_MS);
	job_start(&job, &client, VOLUME_READ, 0, PIECE, buffer);
	assert_int_equal(job_wait(&job, PATIENCE_MS), -EIO);
	client_wait_state(&client, VOLUME_FAILED, PATIENCE_MS);
	end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_hostile_target_loses_its_path_alone),
		CASE(refused_io_goes_elsewhere),
		CASE(other_namespaces_are_refused),
		CASE(too_few_queues_are_refused),
		CASE(a_flush_goes_where_writes_went),
		CASE(a_path_that_lost_power_is_reported),
		CASE(what_was_flushed_is_not_reported),
		CASE(the_volume_gives_up_after_the_last_path),
	};

	return cmocka_run_group_tests_name("two_paths", tests, NULL, NULL);
}
