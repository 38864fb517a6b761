/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Flush of a volume with one to three paths. It goes by each path that has brought writes; and
 * whatever happens to a path at whichever step, it ends once, and I/O goes on.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tests/hostile_target/paths.h"

/* ---- where it goes ------------------------------------------------------------------------- */

static uint64_t n_commands(void)
{
	return paths_status().paths[0].n_commands + paths_status().paths[1].n_commands;
}

static void a_flush_goes_where_writes_went(void **state)
{
	uint64_t n;

	paths_begin(2, 1, ARGS("flush:2=status,4281"));
	assert_int_equal(do_flush(), 0); /* by both: what an earlier process left is not known */
	paths_write_to_each();
	assert_int_equal(do_flush(), -EIO); /* the right one could not */
	assert_int_equal(do_flush(), 0);
	n = n_commands();
	assert_int_equal(do_flush(), 0);
	assert_int_equal(n_commands(), n + 1);
	paths_write_to_each();
	assert_int_equal(do_flush(), 0);
	assert_int_equal(n_commands(), n + 5);
	paths_end();
}

/* Writes that the lost target had not flushed are lost: no Flush by the other path has covered
 * them. */
static void a_path_that_lost_power_is_reported(void **state)
{
	paths_begin(2, 1, NULL);
	paths_write_to_each();
	paths_kill(1);
	assert_int_equal(do_flush(), 0);
	paths_start_again(1, ARGS("unsafe=1"));
	paths_wait(1, VOLUME_PATH_LIVE);
	assert_int_equal(do_flush(), -EIO);
	assert_non_null(strstr(paths_status().io_errors.last.words, "lost power"));
	assert_int_equal(do_flush(), 0);
	paths_end();
}

/* The loss becomes known while a Flush lies at the other path's target; then its path is lost
 * again, so that no more is to be sent. The Flush fails: it was for the lost writes, too. */
static void a_flush_under_way_fails_for_a_loss_of_power(void **state)
{
	struct job job;

	paths_begin(2, 0, ARGS("flush:2=hold"));
	assert_int_equal(do_flush(), 0);
	paths_write_to_each();
	paths_kill(1);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	while (!target_say(&targets[0], ""))
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	paths_start_again(1, ARGS("unsafe=1"));
	paths_wait(1, VOLUME_PATH_LIVE);
	paths_kill(1);
	assert_false(job.is_done);
	target_say(&targets[0], "release");
	assert_int_equal(job_wait(&job, PATIENCE_MS), -EIO);
	assert_non_null(strstr(paths_status().io_errors.last.words, "lost power"));
	assert_int_equal(do_flush(), 0);
	paths_end();
}

static void what_was_flushed_is_not_reported(void **state)
{
	paths_begin(2, 1, NULL);
	paths_write_to_each();
	assert_int_equal(do_flush(), 0);
	paths_kill(1);
	paths_write_to_each();
	paths_start_again(1, ARGS("unsafe=1"));
	paths_wait(1, VOLUME_PATH_LIVE);
	assert_int_equal(do_flush(), 0);
	assert_int_equal(paths_status().io_errors.n, 0);
	paths_end();
}

/* ---- a path goes at one of its steps ------------------------------------------------------- */

/* The behaviour of the path's target. */
enum fate {
	FATE_REFUSES,	   /* ANA Inaccessible, once, and control never hears why */
	FATE_CHANGES,	   /* ANA Transition, once */
	FATE_CUT,	   /* the connection breaks */
	FATE_DIES,	   /* kill -9, and a start later */
	FATE_INACCESSIBLE, /* drained: ANA says so, and later that it is back */
	FATES,
};
#define FATES_BY_ITSELF FATE_INACCESSIBLE /* those before it a rule of the target brings about */

static const char *const actions[FATES_BY_ITSELF] = {"status,302", "status,303", "disconnect",
						     "exit"};

static void rule(char rule[static 32], const char *event, enum fate fate)
{
	snprintf(rule, 32, "%s=%s", event, actions[fate]);
}

static void say_case(const char *step, unsigned n, unsigned path, enum fate fate)
{
	static const char *const fates[FATES] = {"refuses", "changes", "is cut", "dies",
						 "is inaccessible"};

	print_message("# %s: path %u of %u %s\n", step, path, n, fates[fate]);
}

static void wait_ana(unsigned path, const char *state)
{
	struct volume_path_status status;

	do {
		loop_turn(&world, 10 * NSEC_PER_MSEC);
		status = paths_status().paths[path];
	} while (strcmp(status.ana_state, state) != 0);
}

static void heal(unsigned path, enum fate fate)
{
	if (fate == FATE_DIES) {
		if (targets[path].pid)
			target_stop(&targets[path]);
		paths_start_again(path, NULL);
	}
	paths_wait(path, VOLUME_PATH_LIVE);
	if (fate == FATE_INACCESSIBLE) {
		target_say(&targets[path], "ana 1");
		wait_ana(path, "optimized");
	}
}

/* I/O goes on by each path, and nothing was left behind. */
static void check_all_is_well(void)
{
	paths_write_to_each();
	assert_int_equal(do_flush(), 0);
	assert_int_equal(paths_status().n_held, 0);
	assert_int_equal(paths_status().io_errors.n, 0);
	paths_end();
}

/* Each path has an unflushed write, and the path's target will do that at this event. */
static void begin_case(const char *step, const char *event, unsigned n, unsigned path,
		       enum fate fate)
{
	char arg[32];

	say_case(step, n, path, fate);
	rule(arg, event, fate);
	paths_begin(n, path, ARGS(arg));
	assert_int_equal(do_flush(), 0);
	paths_write_to_each();
}

/* The Flush itself is the command that the path's target does not answer as it should. */
static void goes_at_the_flush(unsigned n, unsigned path, enum fate fate)
{
	struct job job;

	begin_case("at", "flush:2", n, path, fate);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	if (n > 1)
		assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
	if (fate == FATE_DIES)
		paths_wait(path, VOLUME_PATH_LOST);
	heal(path, fate);
	assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
	check_all_is_well();
}

static struct job after;

static void flush_after(struct volume_io *io, int error)
{
	struct job *job = container_of(io, struct job, io);

	job->result = error;
	job->is_done = true;
	volume_io_submit(client.queue, &after.io);
}

/* The Flush is submitted as soon as a read has found that the path does not serve it: control does
 * not know yet, so the path counts as one that the Flush needs. */
static void has_gone_before_the_flush(unsigned n, unsigned path, enum fate fate)
{
	struct job reads[PATHS_MAX];

	begin_case("before", "read:1", n, path, fate);
	job_prepare(&after, &client, VOLUME_FLUSH, 0, 0, NULL);
	for (unsigned i = 0; i < n; i++)
		job_prepare(&reads[i], &client, VOLUME_READ, 0, PIECE, buffer);
	reads[n - 1].io.done = flush_after;
	for (unsigned i = 0; i < n; i++)
		volume_io_submit(client.queue, &reads[i].io);
	if (fate == FATE_DIES) {
		paths_wait(path, VOLUME_PATH_LOST);
		target_stop(&targets[path]);
	}
	heal(path, fate);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(job_wait(&reads[i], PATIENCE_MS), 0);
	assert_int_equal(job_wait(&after, PATIENCE_MS), 0);
	check_all_is_well();
}

static void send_away(unsigned path, enum fate fate)
{
	switch (fate) {
	case FATE_CUT:
		target_say(&targets[path], "drop");
		paths_wait(path, VOLUME_PATH_LOST);
		break;
	case FATE_DIES:
		target_kill(&targets[path]);
		paths_wait(path, VOLUME_PATH_LOST);
		break;
	default:
		target_say(&targets[path], "ana 3");
		wait_ana(path, "inaccessible");
	}
}

/* The Flush lies at another path's target meanwhile. */
static void goes_beside_the_flush(unsigned path, unsigned other, enum fate fate)
{
	struct job job;

	say_case("beside", 3, path, fate);
	paths_begin(3, other, ARGS("flush:2=hold"));
	assert_int_equal(do_flush(), 0);
	paths_write_to_each();
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	while (!target_say(&targets[other], ""))
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	send_away(path, fate);
	target_say(&targets[other], "release");
	assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
	heal(path, fate);
	check_all_is_well();
}

static void at_its_own_flush(void **state)
{
	for (unsigned n = 1; n <= PATHS_MAX; n++)
		for (unsigned path = 0; path < n; path++)
			for (enum fate fate = 0; fate < FATES_BY_ITSELF; fate++)
				goes_at_the_flush(n, path, fate);
}

static void just_before_the_flush(void **state)
{
	for (unsigned n = 1; n <= PATHS_MAX; n++)
		for (unsigned path = 0; path < n; path++)
			for (enum fate fate = 0; fate < FATES_BY_ITSELF; fate++)
				has_gone_before_the_flush(n, path, fate);
}

static void while_another_path_flushes(void **state)
{
	paths_arg = "ana=1";
	for (unsigned path = 0; path < PATHS_MAX; path++)
		for (unsigned other = 0; other < PATHS_MAX; other++)
			for (enum fate fate = FATE_CUT; other != path && fate < FATES; fate++)
				goes_beside_the_flush(path, other, fate);
	paths_arg = NULL;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_flush_goes_where_writes_went),
		CASE(a_path_that_lost_power_is_reported),
		CASE(a_flush_under_way_fails_for_a_loss_of_power),
		CASE(what_was_flushed_is_not_reported),
		CASE(at_its_own_flush),
		CASE(just_before_the_flush),
		CASE(while_another_path_flushes),
	};

	return cmocka_run_group_tests_name("flush", tests, NULL, NULL);
}
