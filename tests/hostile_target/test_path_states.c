/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator on a path whose ANA state changes. I/O waits while the target does not serve it
 * there, and continues when it does, with or without a notice. I/O fails on persistent loss.
 * Malformed logs do no harm.
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
};

static struct target target;
static struct client client;

static void begin(const char *const *args)
{
	target_start(&target, 0, args);
	client_init(&client, target.port);
	client.config.ctrl_loss_tmo_ns = UINT64_MAX;
	client_open_with_queue(&client);
}

static void end(void)
{
	assert_int_equal(client.n_lost, 0);
	client_close(&client);
	target_stop(&target);
}

static const char *path_state(uint32_t *ret_group)
{
	struct volume_status status;

	volume_get_status(client.volume, &status);
	if (ret_group)
		*ret_group = status.ana_group;
	return status.ana_state;
}

static void wait_path_state(const char *state)
{
	uint64_t deadline = clock_ns() + PATIENCE_MS * NSEC_PER_MSEC;

	while (!path_state(NULL) || strcmp(path_state(NULL), state) != 0) {
		if (clock_ns() > deadline)
			fail_msg("the path is not %s", state);
		world_run(10);
	}
}

static void test_reads_its_state(void **state)
{
	uint32_t group;

	begin(NULL);
	assert_null(path_state(&group));
	assert_int_equal(group, 0);
	end();
	begin(ARGS("ana=2"));
	assert_string_equal(path_state(&group), "non_optimized");
	assert_int_equal(group, 1);
	write_and_read(&client, 0, 4096, 1);
	target_say(&target, "ana 1");
	wait_path_state("optimized");
	end();
	/* The group's descriptor is in the third piece of the page. */
	begin(ARGS("ana=2", "ana_groups=300"));
	assert_string_equal(path_state(&group), "non_optimized");
	assert_int_equal(group, 300);
	target_say(&target, "ana 1");
	wait_path_state("optimized");
	end();
}

/* At its second, third, fourth read the log changes: groups before ours are gone, nothing may be
 * where the host reads on. A log that never stays the same says nothing. */
static void test_log_changes_meanwhile(void **state)
{
	char arg[32];

	for (unsigned at = 2; at <= 4; at++) {
		snprintf(arg, sizeof(arg), "shrinks=%u", at);
		begin(ARGS("ana=2", "ana_groups=300", arg));
		assert_string_equal(path_state(NULL), "non_optimized");
		end();
	}
	begin(ARGS("ana=2", "ana_groups=300", "restless=1"));
	assert_null(path_state(NULL));
	write_and_read(&client, 0, 4096, 1);
	end();
}

static void test_waits_until_it_is_told(void **state)
{
	static const char *const away[] = {"ana 3", "ana 15"};
	static const char *const names[] = {"inaccessible", "change"};

	begin(ARGS("ana=1"));
	for (unsigned i = 0; i < ARRAY_LEN(away); i++) {
		struct job job;

		target_say(&target, away[i]);
		wait_path_state(names[i]);
		job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
		world_run(300);
		assert_false(job.is_done);
		target_say(&target, i ? "ana 2" : "ana 1");
		assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
		wait_path_state(i ? "non_optimized" : "optimized");
	}
	end();
}

/* The path is inaccessible at first, and no notice follows: the initiator reads the log again. */
static void test_needs_no_notice(void **state)
{
	struct job job;

	begin(ARGS("ana=3"));
	assert_string_equal(path_state(NULL), "inaccessible");
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	world_run(300);
	assert_false(job.is_done);
	target_say(&target, "quiet-ana 1");
	assert_int_equal(job_wait(&job, PATIENCE_MS), 0);
	write_and_read(&client, 0, 65536, 3);
	end();
}

static void test_persistent_loss_fails(void **state)
{
	begin(ARGS("ana=1"));
	target_say(&target, "ana 4");
	wait_path_state("persistent_loss");
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), -EIO);
	target_say(&target, "quiet-ana 1"); /* a target may recover from persistent loss */
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	end();
}

/* For at most as long as a lost connection is waited for. */
static void test_gives_up(void **state)
{
	struct job job;
	uint64_t start_ns;

	target_start(&target, 0, ARGS("ana=3"));
	client_init(&client, target.port);
	client.config.ctrl_loss_tmo_ns = NSEC_PER_SEC;
	start_ns = clock_ns(); /* earlier than the time that the limit starts from */
	client_open_with_queue(&client);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	assert_int_equal(job_wait(&job, PATIENCE_MS), -EIO);
	assert_true(clock_ns() - start_ns >= NSEC_PER_SEC);
	end();
}

/* Whatever the log has or lacks: the statuses of I/O decide. */
static void test_logs_without_sense(void **state)
{
	static const char *const rules[] = {"get-log=status,4002", "get-log=status,4109",
					    "get-log=garbage"};

	for (unsigned i = 0; i <= ARRAY_LEN(rules); i++) {
		if (i == ARRAY_LEN(rules)) /* a group that is in no log */
			begin(ARGS("ana=1", "ana_groups=0"));
		else
			begin(ARGS("ana=1", rules[i]));
		write_and_read(&client, 0, 32768, i);
		target_say(&target, "ana 3");
		target_say(&target, "ana 1");
		write_and_read(&client, 0, 32768, i + 9);
		end();
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_reads_its_state),	   CASE(test_log_changes_meanwhile),
		CASE(test_waits_until_it_is_told), CASE(test_needs_no_notice),
		CASE(test_persistent_loss_fails),  CASE(test_gives_up),
		CASE(test_logs_without_sense),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_path_states", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
