/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A volume with two paths, each to a fake target of its own. The second target's faults end its
 * path and nothing else; a path that leads elsewhere gets no I/O. Flush: test_flush.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tests/hostile_target/paths.h"

/* ---- misbehaviour -------------------------------------------------------------------------- */

static void survive(const char *rule)
{
	paths_begin(2, 1, ARGS(rule));
	for (unsigned i = 0; i < 8; i++) {
		if (do_io(&client, VOLUME_READ, i * PIECE, PIECE, buffer) || do_write(i * PIECE) ||
		    do_flush() || do_io(&client, VOLUME_WRITE_ZEROES, 0, PIECE, NULL))
			fail_msg("%s: I/O %u has failed", rule, i);
	}
	if (client.n_lost)
		fail_msg("%s: the volume was lost", rule);
	assert_int_equal(paths_status().paths[0].n_losses, 0);
	assert_int_equal(paths_status().io_errors.n, 0);
	paths_end();
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
	paths_prepare(2, 1, ARGS(arg));
	paths_open_first();
	paths_wait(1, state);
	if (!strstr(paths_status().paths[1].last_error.message, words))
		fail_msg("%s: '%s'", arg, paths_status().paths[1].last_error.message);
	paths_write_to_each();
	assert_int_equal(paths_status().paths[1].n_commands, 0);
	assert_int_equal(paths_status().state, VOLUME_LIVE);
	assert_int_equal(paths_status().n_paths_live, 1);
	paths_end();
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

	paths_begin(2, 1, NULL);
	assert_int_equal(volume_queue_add(client.volume, &world, &second), 0);
	paths_kill(1);
	paths_start_again(1, ARGS("queues=1"));
	paths_wait(1, VOLUME_PATH_UNFIT);
	assert_non_null(strstr(paths_status().paths[1].last_error.message,
			       "grants 1 I/O queues by 127.0.0.1:"));
	paths_write_to_each();
	is_removed = false;
	volume_queue_remove(second, on_removed, NULL);
	world_wait(&is_removed, PATIENCE_MS, "removing the second queue");
	paths_wait(1, VOLUME_PATH_LIVE);
	paths_end();
}

/* ---- the last path ------------------------------------------------------------------------- */

static void the_volume_gives_up_after_the_last_path(void **state)
{
	struct job job;

	paths_prepare(2, 1, NULL);
	client.config.ctrl_loss_tmo_ns = NSEC_PER_SEC;
	paths_open();
	paths_kill(1);
	assert_int_equal(client.n_lost, 0);
	paths_write_to_each();
	target_kill(&targets[0]);
	client_wait_state(&client, VOLUME_RECONNECTING, PATIENCE_MS);
	job_start(&job, &client, VOLUME_READ, 0, PIECE, buffer);
	assert_int_equal(job_wait(&job, PATIENCE_MS), -EIO);
	client_wait_state(&client, VOLUME_FAILED, PATIENCE_MS);
	paths_end();
}

/* ---- removing a path that was lost ---------------------------------------------------------- */

static void remove_path(const union addr *address)
{
	struct error error;

	assert_int_equal(volume_path_leave(client.volume, address, false, &error), 0);
	while (volume_path_go(client.volume, address) != DEPARTURE_DONE)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
}

/* Nothing can prove that its write is over: the write waits until a person says so. */
static void a_lost_path_with_a_write_is_removed(void **state)
{
	struct job jobs[2];
	struct error error;
	union addr second;

	paths_begin(2, 1, ARGS("write=silence"));
	second = paths_status().paths[1].address;
	for (unsigned i = 0; i < 2; i++)
		job_start(&jobs[i], &client, VOLUME_WRITE, i * PIECE, PIECE, buffer);
	while (paths_status().paths[1].n_in_flight != 1 || paths_status().paths[0].n_in_flight)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	target_kill(&targets[1]);
	paths_wait(1, VOLUME_PATH_LOST);
	while (paths_status().fencing.state != FENCING_UNKNOWN)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	remove_path(&second);
	assert_int_equal(paths_status().n_paths, 1);
	assert_int_equal(jobs[0].is_done + jobs[1].is_done, 1);
	assert_int_equal(paths_status().fencing.state, FENCING_UNKNOWN);
	assert_int_equal(volume_path_leave(client.volume, &second, true, &error), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(job_wait(&jobs[i], PATIENCE_MS), 0);
	paths_end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_hostile_target_loses_its_path_alone),
		CASE(refused_io_goes_elsewhere),
		CASE(other_namespaces_are_refused),
		CASE(too_few_queues_are_refused),
		CASE(the_volume_gives_up_after_the_last_path),
		CASE(a_lost_path_with_a_write_is_removed),
	};

	return cmocka_run_group_tests_name("two_paths", tests, NULL, NULL);
}
