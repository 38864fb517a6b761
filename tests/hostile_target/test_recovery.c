/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initiator and a fake target that misbehaves while live: every I/O succeeds all the same, over
 * a new association. Also the ways to give up. Each test is a row of main's table.
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

struct turn {
	const char *rule;
	int error; /* of the I/O that the rule strikes */
};

/* One volume with one queue, at a target with these rules. Durations of 0 are client_init's. */
struct row {
	const char *rules[4];
	const struct turn *each; /* runs once for each, whose rule comes to the others */
	void (*work)(const struct row *row);
	uint64_t io_timeout_ns, keep_alive_ns, ctrl_loss_tmo_ns, fast_io_fail_tmo_ns;
	unsigned n_queues;
	bool fails_on_denial;
	unsigned n_lost; /* associations that work loses */
	unsigned late_ms;
	int error;
	const char *message;	 /* of the volume that gives up */
	const char *const *next; /* rules of the target that is started when this one is killed */
};

static struct target target;
static struct client client;
static uint64_t opened_ns; /* not later than the opening of the volume */

static void set(uint64_t *field, uint64_t value)
{
	if (value)
		*field = value;
}

static void run_once(const struct row *row)
{
	struct volume_config *config = &client.config;

	target_start(&target, 0, row->rules);
	client_init(&client, target.port);
	set(&config->io_timeout_ns, row->io_timeout_ns);
	set(&config->keep_alive_ns, row->keep_alive_ns);
	set(&config->ctrl_loss_tmo_ns, row->ctrl_loss_tmo_ns);
	set(&config->fast_io_fail_tmo_ns, row->fast_io_fail_tmo_ns);
	config->n_queues = MAX(row->n_queues, 1u);
	config->fails_on_denial = row->fails_on_denial;
	opened_ns = clock_ns();
	client_open_with_queue(&client);
	row->work(row);
	client_close(&client);
	if (target.pid)
		target_stop(&target);
}

static void run(void **state)
{
	const struct row *row = *state;

	if (!row->each)
		run_once(row);
	for (const struct turn *turn = row->each; turn && turn->rule; turn++) {
		struct row now = *row;

		now.rules[0] = turn->rule;
		memcpy(&now.rules[1], row->rules, sizeof(now.rules) - sizeof(now.rules[0]));
		now.error = turn->error;
		run_once(&now);
	}
}

/* ---- misbehaviour while live ---- */

/* I/O must succeed all the same. A late answer comes within late_ms. */
static void survive(const struct row *row)
{
	for (unsigned i = 0; i < 4; i++) {
		write_and_read(&client, i * 65536, 512, i);
		write_and_read(&client, i * 65536, 32768, i + 9);
		assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
		assert_int_equal(do_io(&client, VOLUME_WRITE_ZEROES, 0, 4096, NULL), 0);
		assert_int_equal(do_io(&client, VOLUME_TRIM, 0, 4096, NULL), 0);
	}
	if (row->n_lost)
		world_wait_lost(&client, row->n_lost);
	if (client.n_lost != row->n_lost)
		fail_msg("%s: lost %u times", row->rules[0], client.n_lost);
	if (row->n_lost)
		world_run(row->late_ms);
	client_wait_state(&client, VOLUME_LIVE, 5000);
}

#define EACH_ANSWER(op)                                                                            \
	{op ":2=wrong-cid"}, {op ":2=old-cid"}, {op ":2=duplicate"}, {op ":2=short"},              \
		{op ":2=invalidate"},                                                              \
	{                                                                                          \
		op ":2=disconnect"                                                                 \
	}

static const struct turn bad_answers[] = {
	EACH_ANSWER("read"),
	EACH_ANSWER("write"),
	EACH_ANSWER("flush"),
	EACH_ANSWER("zero"),
	EACH_ANSWER("trim"),
	{"read:3=write-past"},
	{0},
};

static const struct turn slow_answers[] = {
	{"write:2=late,300"},
	{"read:2=late,300"},
	{"keep-alive:1=silence"}, /* the test ends before the initiator detects it */
	{0},
};

static const struct turn retried_statuses[] = {
	{"read:2=status,21"},	{"write:2=status,22"}, {"write:2=status,82"},
	{"write:2=status,19"}, /* the association had expired */
	{"flush:2=status,302"}, {"zero:2=status,181"}, {0},
};

static const struct turn final_statuses[] = {
	{"read:1=status,4080", -EINVAL}, {"read:1=status,4281", -EIO},
	{"read:1=status,4002", -EINVAL}, {"read:1=status,4001", -EOPNOTSUPP},
	{"read:1=status,81", -ENOSPC},	 {"read:1=status,20", -EPERM},
	{"read:1=status,4021", -EIO},	 {0},
};

static void read_fails_once(const struct row *row)
{
	void *buffer = volume_buffer_take(client.queue, 4096);

	assert_int_equal(do_io(&client, VOLUME_READ, 0, 4096, buffer), row->error);
	assert_int_equal(do_io(&client, VOLUME_READ, 0, 4096, buffer), 0);
	volume_buffer_give(client.queue, buffer);
}

static void flush(const struct row *row)
{
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), row->error);
	assert_int_equal(client.n_lost, row->n_lost);
}

/* Other I/O is answered meanwhile. */
static void flush_beside_others(const struct row *row)
{
	struct job job;

	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	while (!job.is_done)
		write_and_read(&client, 0, 4096, 1);
	assert_int_equal(job_wait(&job, 0), row->error);
	assert_int_equal(client.n_lost, row->n_lost);
}

static void lose_keep_alive(const struct row *row)
{
	world_wait_lost(&client, row->n_lost);
	/* The first Keep Alive was answered. The second leaves one interval later and expires
	 * one after. */
	assert_true(clock_ns() - opened_ns >= 2 * row->keep_alive_ns);
	client_wait_state(&client, VOLUME_LIVE, 3000);
	write_and_read(&client, 0, 4096, 1);
}

/* ---- reconnecting ---- */

static const struct turn spoilt_reconnects[] = {
	{"cm-admin:2=reject,6"},
	{"cm-admin:2=disconnect"},
	{"cm-admin:2=bad-private"},
	{"connect-admin:2=disconnect"},
	{"connect-admin:2=status,181"},
	{"connect-admin:2=wrong-cid"},
	{"get-cap:2=disconnect"},
	{"set-cc:3=disconnect"},
	{"get-csts:3=fatal"},
	{"identify-ctrl:2=disconnect"},
	{"identify-ctrl:2=garbage"},
	{"identify-limits:2=disconnect"},
	{"set-queues:2=status,6"},
	{"set-events:2=disconnect"},
	{"identify-ids:2=disconnect"},
	{"identify-ns:2=short"},
	{"identify-ns:2=status,b"},
	{"aer:2=disconnect"},
	{"cm-io:2=reject,6"},
	{"cm-io:2=disconnect"},
	{"cm-io:2=bad-private"},
	{"connect-io:2=disconnect"},
	{"connect-io:2=status,181"},
	{"connect-io:2=short"},
	{"connect-io:2=wrong-cid"},
	{"connect-io:2=duplicate"},
	{0},
};

/* The rule spoils the first attempt to reconnect. */
static void reconnect(const struct row *row)
{
	for (unsigned i = 0; i < 4; i++)
		write_and_read(&client, i * 65536, 32768, i);
	if (!client.n_lost)
		fail_msg("%s: not lost", row->rules[0]);
}

static void restart_thrice(const struct row *row)
{
	unsigned port = target.port;
	void *buffer;

	write_and_read(&client, 0, 4096, 1);
	buffer = volume_buffer_take(client.queue, 65536);
	for (unsigned i = 0; i < 3; i++) {
		struct volume_status status;
		struct job job;

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
}

static void expect_failed(const char *message)
{
	struct volume_status status;

	client_wait_state(&client, VOLUME_FAILED, 10000);
	volume_get_status(client.volume, &status);
	if (!strstr(status.last_error.message, message))
		fail_msg("%s", status.last_error.message);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), -EIO);
}

/* The volume keeps its I/O and tries again: the target may admit the host later. */
static void wait_for_admission(const struct row *row)
{
	struct job job;
	struct volume_status status;

	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	client_wait_state(&client, VOLUME_DENIED, 10000);
	volume_get_status(client.volume, &status);
	assert_non_null(strstr(status.last_error.message, row->message));
	assert_true(status.gives_up_in_ns <= client.config.ctrl_loss_tmo_ns);
	assert_int_equal(job_wait(&job, 10000), 0);
}

static void fail_and_reopen(const struct row *row)
{
	struct job job;

	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	assert_int_equal(job_wait(&job, 5000), row->error);
	expect_failed(row->message);
	/* On request it tries again, and the target admits it. */
	assert_int_equal(volume_reopen(client.volume), 0);
	assert_int_equal(volume_reopen(client.volume), -EINVAL);
	client_wait_state(&client, VOLUME_LIVE, 10000);
	world_run(100);
	assert_int_equal(do_io(&client, VOLUME_FLUSH, 0, 0, NULL), 0);
}

static void lose_target_for_good(const struct row *row)
{
	uint64_t start = clock_ns(); /* before the loss is noticed, where the limit starts */
	struct job job;

	target_kill(&target);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	/* long before the default limit, however slow the machine is */
	assert_int_equal(job_wait(&job, 60000), row->error);
	assert_true(clock_ns() - start >= row->ctrl_loss_tmo_ns);
	expect_failed(row->message);
}

static void fail_fast(const struct row *row)
{
	unsigned port = target.port;
	struct job job;

	target_kill(&target);
	job_start(&job, &client, VOLUME_FLUSH, 0, 0, NULL);
	assert_int_equal(job_wait(&job, 3000), row->error);
	client_wait_state(&client, VOLUME_RECONNECTING, 0);
	target_start(&target, port, NULL);
	client_wait_state(&client, VOLUME_LIVE, 5000);
	world_run(100);
	write_and_read(&client, 0, 4096, 7);
}

/* The target is another one after the reconnect: the volume fails, or 128 KiB still pass. */
static void meet_another(const struct row *row)
{
	unsigned port = target.port;

	write_and_read(&client, 0, 131072, 1);
	target_kill(&target);
	target_start(&target, port, row->next);
	if (row->message)
		expect_failed(row->message);
	else
		write_and_read(&client, 0, 131072, 2);
}

static void resize(const struct row *row)
{
	struct volume_info info;

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
	expect_failed(row->message);
}

/* One queue is refused; the volume continues with the other. */
static void use_one_of_two_queues(const struct row *row)
{
	struct client second;

	write_and_read(&client, 0, 4096, 1);
	second = client;
	assert_int_equal(volume_queue_add(client.volume, &world, &second.queue), 0);
	assert_int_equal(volume_queue_add(client.volume, &world, &second.queue), -EUSERS);
	write_and_read(&client, 0, 4096, 2);
	write_and_read(&second, 8192, 4096, 3);
	assert_int_equal(client.n_lost, 0);
	volume_queue_remove(second.queue, NULL, NULL);
}

/* ---- what was on the wire ---- */

static void start_read(struct job *job, uint64_t offset, void *buffer)
{
	unsigned n = target_say(&target, "");

	job_start(job, &client, VOLUME_READ, offset, 4096, buffer);
	while (target_say(&target, "") == n)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
}

/* Both are sent again in their old order: what the target says to the first one that comes is the
 * answer of the first. */
static void keep_order(const struct row *row)
{
	void *buffer = volume_buffer_take(client.queue, 4096);
	struct job first, second;

	start_read(&first, 0, buffer);
	start_read(&second, 4096, buffer);
	target_say(&target, "drop");
	assert_int_equal(job_wait(&first, 10000), row->error);
	assert_int_equal(job_wait(&second, 10000), 0);
	volume_buffer_give(client.queue, buffer);
}

/* It ends, and is not sent again: the next read to come is the one that the rule strikes. */
static void cancel_a_read(const struct row *row)
{
	void *buffer = volume_buffer_take(client.queue, 4096);
	struct job job;

	start_read(&job, 0, buffer);
	assert_false(volume_io_cancel(client.queue, &job.io));
	target_say(&target, "drop");
	assert_int_equal(job_wait(&job, 10000), -ECANCELED);
	assert_int_equal(do_io(&client, VOLUME_READ, 0, 4096, buffer), row->error);
	volume_buffer_give(client.queue, buffer);
}

static void on_removed(void *context)
{
	((struct client *)context)->is_removed = true;
}

/* Queues are added and removed at any moment, also while the target is lost; and the volume is
 * closed at any moment of that. */
static void test_churn(void **state)
{
	unsigned seed = 1;

	target_start(&target, 0, NULL);
	for (unsigned round = 0; round < 30; round++) {
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
	target_stop(&target);
}

#define ROW(...)     (&(struct row){__VA_ARGS__})
#define CASE(f, ...) ((struct CMUnitTest){#f, run, world_setup, world_teardown, ROW(__VA_ARGS__)})

/* An argument is a pattern of test names: test_recovery 'test_good*'. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_order_after_a_loss, {"read:1=hold", "read:2=hold", "read:3=status,4281"},
		     .work = keep_order, .error = -EIO),
		CASE(test_cancelled_read, {"read:1=hold", "read:2=status,4281"},
		     .work = cancel_a_read, .error = -EIO),
		CASE(test_bad_answers, .each = bad_answers, .work = survive, .n_lost = 1),
		CASE(test_slow_and_silent, .each = slow_answers, .work = survive),
		/* The late answer reaches a dead queue. */
		CASE(test_late_for_its_queue, {"read:2=late,6000"}, .work = survive,
		     .io_timeout_ns = 2 * NSEC_PER_SEC, .n_lost = 1, .late_ms = 4500),
		CASE(test_silence, {"write:3=silence"}, .work = survive,
		     .io_timeout_ns = 2 * NSEC_PER_SEC, .n_lost = 1),
		CASE(test_retried_statuses, .each = retried_statuses, .work = survive),
		CASE(test_final_statuses, .each = final_statuses, .work = read_fails_once),
		/* A retryable status that never goes away fails the I/O after some retries. */
		CASE(test_retries_end, {"flush=status,22"}, .work = flush, .error = -EIO),
		CASE(test_keep_alive, {"keep-alive:2=silence"}, .work = lose_keep_alive,
		     .keep_alive_ns = 1500 * NSEC_PER_MSEC, .n_lost = 1),
		CASE(test_spoilt_reconnects, {"read:2=disconnect"}, .each = spoilt_reconnects,
		     .work = reconnect),
		CASE(test_target_restarts, .work = restart_thrice, .ctrl_loss_tmo_ns = UINT64_MAX),
		CASE(test_denied, {"connect-admin:2=status,4184", "flush:1=disconnect"},
		     .work = wait_for_admission, .message = "refuses host"),
		CASE(test_never_again, {"connect-admin:2=status,4184", "flush:1=disconnect"},
		     .work = fail_and_reopen, .fails_on_denial = true, .error = -EIO,
		     .message = "refuses host"),
		/* While the target answers other commands, a late one is given up only after ten
		 * timeouts; then, where it answers Keep Alive alone. */
		CASE(test_slow, {"flush:1=late,4000"}, .work = flush_beside_others,
		     .io_timeout_ns = NSEC_PER_SEC),
		CASE(test_slow_alone, {"flush:1=late,4000"}, .work = flush,
		     .io_timeout_ns = NSEC_PER_SEC, .keep_alive_ns = NSEC_PER_SEC),
		/* A command that is never answered is given up, although others are answered. */
		CASE(test_forgotten, {"flush:1=silence"}, .work = flush_beside_others,
		     .io_timeout_ns = 200 * NSEC_PER_MSEC, .n_lost = 1),
		CASE(test_ctrl_loss, .work = lose_target_for_good, .ctrl_loss_tmo_ns = NSEC_PER_SEC,
		     .error = -EIO, .message = "nothing listens"),
		CASE(test_fast_fail, .work = fail_fast, .fast_io_fail_tmo_ns = 300 * NSEC_PER_MSEC,
		     .error = -EIO),
		CASE(test_other_uuid, .work = meet_another, .next = ARGS("uuid=2"),
		     .message = "identifier has changed"),
		CASE(test_other_block_size, .work = meet_another, .next = ARGS("block_size=4096"),
		     .message = "block size has changed"),
		CASE(test_smaller, .work = meet_another, .next = ARGS("blocks=1000"),
		     .message = "become smaller"),
		/* 128 KiB are split into two commands. */
		CASE(test_smaller_transfers_after_reconnect, .work = meet_another,
		     .next = ARGS("mdts=1", "icd=512", "mqes=7")),
		CASE(test_resize, .work = resize, .message = "identifier has changed"),
		CASE(test_one_queue_refused, {"connect-io:2=status,6", "cm-io:3=reject,6"},
		     .work = use_one_of_two_queues, .n_queues = 2),
		cmocka_unit_test_setup_teardown(test_churn, world_setup, world_teardown),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_recovery", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
