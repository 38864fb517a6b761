/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator and a fake target that misbehaves while live: every I/O succeeds all the same, over
 * a new association. Also the ways to give up.
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

/* ---- misbehaviour while live ---- */

/*
 * The rule strikes once; I/O must succeed all the same, over a new association. A late answer comes
 * within late_ms; the initiator detects a missing one after 2 s.
 */
static void survive_late(const char *rule, bool expects_loss, unsigned late_ms)
{
	struct target target;
	struct client client;
	int code;

	target_start(&target, 0, ARGS(rule));
	client_init(&client, target.port);
	if (late_ms && expects_loss)
		client.config.io_timeout_ns = 2 * NSEC_PER_SEC;
	client_open_with_queue(&client);
	for (unsigned i = 0; i < 4; i++) {
		write_and_read(&client, i * 65536, 512, i);
		write_and_read(&client, i * 65536, 32768, i + 9);
		assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
		assert_int_equal(do_io(&client, VOLUME_WRITE_ZEROES, 0, 4096, NULL), 0);
		assert_int_equal(do_io(&client, VOLUME_TRIM, 0, 4096, NULL), 0);
	}
	if (expects_loss)
		world_wait_lost(&client, 1);
	if (client.n_lost != expects_loss)
		fail_msg("%s: lost %u times", rule, client.n_lost);
	if (expects_loss)
		world_run(late_ms);
	client_wait_state(&client, VOLUME_LIVE, 5000);
	client_close(&client);
	code = target_stop(&target);
	if (code)
		fail_msg("%s: the target exits with %d", rule, code);
}

static void survive(const char *rule, bool expects_loss)
{
	survive_late(rule, expects_loss, 0);
}

static void test_bad_answers(void **state)
{
	static const char *const ops[] = {"read", "write", "flush", "zero", "trim"};
	static const char *const actions[] = {"wrong-cid", "old-cid",	 "duplicate",
					      "short",	   "invalidate", "disconnect"};
	char rule[64];

	for (unsigned i = 0; i < ARRAY_LEN(ops); i++)
		for (unsigned j = 0; j < ARRAY_LEN(actions); j++) {
			snprintf(rule, sizeof(rule), "%s:2=%s", ops[i], actions[j]);
			survive(rule, true);
		}
	survive("read:3=write-past", true);
}

static void test_slow_and_silent(void **state)
{
	survive("write:2=late,300", false);
	survive("read:2=late,300", false);
	survive_late("read:2=late,6000", true, 4500); /* the late answer reaches a dead queue */
	survive_late("write:3=silence", true, 1);
	survive("keep-alive:1=silence", false); /* the test ends before the initiator detects it */
}

static void test_retried_statuses(void **state)
{
	survive("read:2=status,21", false);
	survive("write:2=status,22", false);
	survive("write:2=status,82", false);
	survive("write:2=status,19", false); /* the association had expired */
	survive("flush:2=status,302", false);
	survive("zero:2=status,181", false);
}

static void test_final_statuses(void **state)
{
	static const struct {
		const char *rule;
		int error;
	} table[] = {
		{"read:1=status,4080", -EINVAL}, {"read:1=status,4281", -EIO},
		{"read:1=status,4002", -EINVAL}, {"read:1=status,4001", -EOPNOTSUPP},
		{"read:1=status,81", -ENOSPC},	 {"read:1=status,20", -EPERM},
		{"read:1=status,4021", -EIO},
	};

	for (unsigned i = 0; i < ARRAY_LEN(table); i++) {
		struct target target;
		struct client client;
		void *buffer;

		target_start(&target, 0, ARGS(table[i].rule));
		client_init(&client, target.port);
		client_open_with_queue(&client);
		buffer = volume_buffer_take(client.queue, 4096);
		assert_int_equal(do_io(&client, VOLUME_READ, 0, 4096, buffer), table[i].error);
		assert_int_equal(do_io(&client, VOLUME_READ, 0, 4096, buffer), 0);
		volume_buffer_give(client.queue, buffer);
		client_close(&client);
		assert_int_equal(target_stop(&target), 0);
	}
}

/* A retryable status that never goes away fails the I/O after some retries. */
static void test_retries_end(void **state)
{
	struct target target;
	struct client client;

	target_start(&target, 0, ARGS("flush=status,22"));
	client_init(&client, target.port);
	client_open_with_queue(&client);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), -EIO);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void test_keep_alive(void **state)
{
	struct target target;
	struct client client;
	uint64_t start = clock_ns();

	target_start(&target, 0, ARGS("keep-alive:2=silence"));
	client_init(&client, target.port);
	client.config.keep_alive_ns = 1500 * NSEC_PER_MSEC;
	client_open_with_queue(&client);
	world_wait_lost(&client, 1);
	/* The first Keep Alive was answered. The second leaves one interval later and expires
	 * one after. */
	assert_true(clock_ns() - start >= 2 * client.config.keep_alive_ns);
	client_wait_state(&client, VOLUME_LIVE, 3000);
	write_and_read(&client, 0, 4096, 1);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

/* ---- reconnecting ---- */

/* The rule spoils the first attempt to reconnect. */
static void test_spoilt_reconnects(void **state)
{
	static const char *const rules[] = {
		"cm-admin:2=reject,6",	      "cm-admin:2=disconnect",
		"cm-admin:2=bad-private",     "connect-admin:2=disconnect",
		"connect-admin:2=status,181", "connect-admin:2=wrong-cid",
		"get-cap:2=disconnect",	      "set-cc:3=disconnect",
		"get-csts:3=fatal",	      "identify-ctrl:2=disconnect",
		"identify-ctrl:2=garbage",    "identify-limits:2=disconnect",
		"set-queues:2=status,6",      "set-events:2=disconnect",
		"identify-ids:2=disconnect",  "identify-ns:2=short",
		"identify-ns:2=status,b",     "aer:2=disconnect",
		"cm-io:2=reject,6",	      "cm-io:2=disconnect",
		"cm-io:2=bad-private",	      "connect-io:2=disconnect",
		"connect-io:2=status,181",    "connect-io:2=short",
		"connect-io:2=wrong-cid",     "connect-io:2=duplicate",
	};

	for (unsigned i = 0; i < ARRAY_LEN(rules); i++) {
		struct target target;
		struct client client;
		int code;

		target_start(&target, 0, ARGS(rules[i], "read:2=disconnect"));
		client_init(&client, target.port);
		client_open_with_queue(&client);
		for (unsigned j = 0; j < 4; j++)
			write_and_read(&client, j * 65536, 32768, i + j);
		if (!client.n_lost)
			fail_msg("%s: not lost", rules[i]);
		client_close(&client);
		code = target_stop(&target);
		if (code)
			fail_msg("%s: the target exits with %d", rules[i], code);
	}
}

static void test_target_restarts(void **state)
{
	struct target target;
	struct client client;
	struct job job;
	unsigned port;
	void *buffer;

	target_start(&target, 0, NULL);
	port = target.port;
	client_init(&client, port);
	client.config.ctrl_loss_tmo_ns = UINT64_MAX;
	client_open_with_queue(&client);
	write_and_read(&client, 0, 4096, 1);
	buffer = volume_buffer_take(client.queue, 65536);
	for (unsigned i = 0; i < 3; i++) {
		struct volume_status status;

		target_kill(&target);
		job_start(&job, &client, VOLUME_READ, 0, 65536, buffer);
		client_wait_state(&client, VOLUME_RECONNECTING, 5000);
		world_run(300);
		assert_false(job.is_done);
		volume_get_status(client.volume, &status);
		assert_int_equal(status.n_held, 1);
		assert_int_equal(status.n_queues_live, 0);
		target_start(&target, port, NULL);
		assert_int_equal(job_wait(&job, 5000), 0);
		write_and_read(&client, 0, 4096, i);
		volume_get_status(client.volume, &status);
		assert_int_equal(status.n_reconnects, i + 1);
	}
	volume_buffer_give(client.queue, buffer);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void expect_failed(struct client *client, const char *message)
{
	struct volume_status status;

	client_wait_state(client, VOLUME_FAILED, 10000);
	volume_get_status(client->volume, &status);
	if (!strstr(status.last_error.message, message))
		fail_msg("%s", status.last_error.message);
	assert_int_equal(do_io(client, VOLUME_FLUSH, 0, 0, NULL), -EIO);
}

/* The volume keeps its I/O and tries again: the target may admit the host later. */
static void test_denied(void **state)
{
	struct target target;
	struct client client;
	struct job job;
	struct volume_status status;

	target_start(&target, 0, ARGS("connect-admin:2=status,4184", "flush:1=disconnect"));
	client_init(&client, target.port);
	client_open_with_queue(&client);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	client_wait_state(&client, VOLUME_DENIED, 10000);
	volume_get_status(client.volume, &status);
	assert_non_null(strstr(status.last_error.message, "refuses host"));
	assert_true(status.gives_up_in_ns <= client.config.ctrl_loss_tmo_ns);
	assert_int_equal(job_wait(&job, 10000), 0);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

/* While the target answers other commands, a late one is given up only after ten timeouts. */
static void test_slow(void **state)
{
	struct target target;
	struct client client;
	struct job job;

	target_start(&target, 0, ARGS("flush:1=late,4000", "flush:2=late,4000"));
	client_init(&client, target.port);
	client.config.io_timeout_ns = NSEC_PER_SEC;
	client_open_with_queue(&client);
	/* Other I/O is answered meanwhile. */
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	while (!job.is_done)
		write_and_read(&client, 0, 4096, 1);
	assert_int_equal(job_wait(&job, 0), 0);
	assert_int_equal(client.n_lost, 0);
	client_close(&client);
	/* Here only Keep Alive is answered meanwhile. */
	client_init(&client, target.port);
	client.config.io_timeout_ns = client.config.keep_alive_ns = NSEC_PER_SEC;
	client_open_with_queue(&client);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	assert_int_equal(client.n_lost, 0);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

/* A command that is never answered is given up, although others are answered. */
static void test_forgotten(void **state)
{
	struct target target;
	struct client client;
	struct job job;

	target_start(&target, 0, ARGS("flush:1=silence"));
	client_init(&client, target.port);
	client.config.io_timeout_ns = 200 * NSEC_PER_MSEC;
	client_open_with_queue(&client);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	while (!job.is_done)
		write_and_read(&client, 0, 4096, 1);
	assert_int_equal(job_wait(&job, 0), 0);
	assert_int_equal(client.n_lost, 1);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void test_never_again(void **state)
{
	struct target target;
	struct client client;
	struct job job;

	target_start(&target, 0, ARGS("connect-admin:2=status,4184", "flush:1=disconnect"));
	client_init(&client, target.port);
	client.config.fails_on_denial = true;
	client_open_with_queue(&client);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	assert_int_equal(job_wait(&job, 5000), -EIO);
	expect_failed(&client, "refuses host");
	/* On request it tries again, and the target admits it. */
	assert_int_equal(volume_reopen(client.volume), 0);
	assert_int_equal(volume_reopen(client.volume), -EINVAL);
	client_wait_state(&client, VOLUME_LIVE, 10000);
	world_run(100);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void test_ctrl_loss(void **state)
{
	struct target target;
	struct client client;
	struct job job;
	uint64_t start;

	target_start(&target, 0, NULL);
	client_init(&client, target.port);
	client.config.ctrl_loss_tmo_ns = NSEC_PER_SEC;
	client_open_with_queue(&client);
	start = clock_ns(); /* earlier than the loss is noticed, where the limit starts */
	target_kill(&target);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	/* long before the default limit, however slow the machine is */
	assert_int_equal(job_wait(&job, 60000), -EIO);
	assert_true(clock_ns() - start >= NSEC_PER_SEC);
	expect_failed(&client, "nothing listens");
	client_close(&client);
}

static void test_fast_fail(void **state)
{
	struct target target;
	struct client client;
	struct job job;
	unsigned port;

	target_start(&target, 0, NULL);
	port = target.port;
	client_init(&client, port);
	client.config.fast_io_fail_tmo_ns = 300 * NSEC_PER_MSEC;
	client_open_with_queue(&client);
	target_kill(&target);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	assert_int_equal(job_wait(&job, 3000), -EIO);
	client_wait_state(&client, VOLUME_RECONNECTING, 0);
	target_start(&target, port, NULL);
	client_wait_state(&client, VOLUME_LIVE, 5000);
	world_run(100);
	write_and_read(&client, 0, 4096, 7);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void other_namespace(const char *const *args, const char *message)
{
	struct target target;
	struct client client;
	unsigned port;

	target_start(&target, 0, NULL);
	port = target.port;
	client_init(&client, port);
	client_open_with_queue(&client);
	write_and_read(&client, 0, 4096, 1);
	target_kill(&target);
	target_start(&target, port, args);
	expect_failed(&client, message);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void test_other_namespace(void **state)
{
	other_namespace(ARGS("uuid=2"), "identifier has changed");
	other_namespace(ARGS("block_size=4096"), "block size has changed");
	other_namespace(ARGS("blocks=1000"), "become smaller");
}

static void test_smaller_transfers_after_reconnect(void **state)
{
	struct target target;
	struct client client;
	unsigned port;

	target_start(&target, 0, NULL);
	port = target.port;
	client_init(&client, port);
	client_open_with_queue(&client);
	write_and_read(&client, 0, 131072, 1);
	target_kill(&target);
	target_start(&target, port, ARGS("mdts=1", "icd=512", "mqes=7"));
	write_and_read(&client, 0, 131072, 2); /* is split into two commands */
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void test_resize(void **state)
{
	struct target target;
	struct client client;
	struct volume_info info;

	target_start(&target, 0, NULL);
	client_init(&client, target.port);
	client_open_with_queue(&client);
	world_run(50);
	target_say(&target, "resize 40000");
	world_wait(&client.is_changed, 3000, "the notice");
	volume_get_info(client.volume, &info);
	assert_int_equal(info.size_bytes, 40000 * 512);
	client.is_changed = false;
	target_say(&target, "resize 50000");
	world_wait(&client.is_changed, 3000, "the second notice");
	assert_int_equal(client.n_lost, 0);
	target_say(&target, "uuid 9");
	target_say(&target, "notify");
	expect_failed(&client, "identifier has changed");
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

/* One queue is refused; the volume continues with the other. */
static void test_one_queue_refused(void **state)
{
	struct target target;
	struct client client, second;

	target_start(&target, 0, ARGS("connect-io:2=status,6", "cm-io:3=reject,6"));
	client_init(&client, target.port);
	client.config.n_queues = 2;
	client_open_with_queue(&client);
	write_and_read(&client, 0, 4096, 1);
	second = client;
	assert_int_equal(volume_queue_add(client.volume, &world, &second.queue), 0);
	assert_int_equal(volume_queue_add(client.volume, &world, &second.queue), -EUSERS);
	write_and_read(&client, 0, 4096, 2);
	write_and_read(&second, 8192, 4096, 3);
	assert_int_equal(client.n_lost, 0);
	volume_queue_remove(second.queue, NULL, NULL);
	client_close(&client);
	assert_int_equal(target_stop(&target), 0);
}

static void on_removed(void *context)
{
	((struct client *)context)->is_removed = true;
}

/* Queues are added and removed at any moment, also while the target is lost; and the volume is
 * closed at any moment of that. */
static void test_churn(void **state)
{
	struct target target;
	unsigned seed = 1;

	target_start(&target, 0, NULL);
	for (unsigned round = 0; round < 30; round++) {
		struct client client;
		struct client others[3];
		unsigned n = round % 4;

		client_init(&client, target.port);
		client.config.n_queues = 4;
		client.config.reconnect_delay_ns = 20 * NSEC_PER_MSEC;
		client_open_with_queue(&client);
		for (unsigned i = 0; i < n; i++) {
			others[i] = client;
			assert_int_equal(volume_queue_add(client.volume, &world, &others[i].queue),
					 0);
			for (unsigned j = rand_r(&seed) % 12; j; j--)
				loop_turn(&world, NSEC_PER_MSEC);
			if (rand_r(&seed) % 3 == 0)
				target_say(&target, "drop");
		}
		for (unsigned i = 0; i < n; i++) {
			for (unsigned j = rand_r(&seed) % 12; j; j--)
				loop_turn(&world, NSEC_PER_MSEC);
			if (rand_r(&seed) % 3 == 0)
				target_say(&target, "drop");
			volume_queue_remove(others[i].queue, on_removed, &others[i]);
		}
		if (round % 2)
			write_and_read(&client, round * 65536, 32768, round);
		if (rand_r(&seed) % 2)
			target_say(&target, "drop");
		for (unsigned j = rand_r(&seed) % 20; j; j--)
			loop_turn(&world, NSEC_PER_MSEC);
		for (unsigned i = 0; i < n; i++)
			world_wait(&others[i].is_removed, 10000, "removing a queue");
		client_close(&client);
	}
	assert_int_equal(target_stop(&target), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

/* An argument is a pattern of test names: test_recovery 'test_good*'. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_bad_answers),
		CASE(test_slow_and_silent),
		CASE(test_retried_statuses),
		CASE(test_final_statuses),
		CASE(test_retries_end),
		CASE(test_keep_alive),
		CASE(test_spoilt_reconnects),
		CASE(test_target_restarts),
		CASE(test_denied),
		CASE(test_never_again),
		CASE(test_slow),
		CASE(test_forgotten),
		CASE(test_ctrl_loss),
		CASE(test_fast_fail),
		CASE(test_other_namespace),
		CASE(test_smaller_transfers_after_reconnect),
		CASE(test_resize),
		CASE(test_one_queue_refused),
		CASE(test_churn),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_recovery", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
