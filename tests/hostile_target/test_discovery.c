/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the discovery log of a target: good, lost, without sense, and changing meanwhile. Then
 * volumes whose paths follow the logs of two targets: paths[0] is named, the other one is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/control/discover.h"
#include "initiator/control/proof.h"
#include "tests/hostile_target/paths.h"

static void test_discovery(void **state)
{
	struct target target;
	struct discover_result result;
	struct error error;

	target_start(&target, 0, NULL);
	client_init(&client, target.port);
	assert_int_equal(discover(&client.config, &result, &error), 0);
	assert_int_equal(result.n_records, 3);
	assert_int_equal(result.records[0].subtype, 3);
	assert_string_equal(result.records[1].subnqn, "nqn.2026-01.test:fake");
	assert_string_equal(result.records[1].traddr, "127.0.0.1");
	assert_string_equal(result.records[1].trsvcid, "4420");
	discover_result_release(&result);
	target_stop(&target);

	target_start(&target, 0, ARGS("connect-admin:1=disconnect"));
	client_init(&client, target.port);
	assert_int_equal(discover(&client.config, &result, &error), 0);
	assert_int_equal(result.n_records, 3);
	discover_result_release(&result);
	target_stop(&target);

	target_start(&target, 0, ARGS("connect-admin=disconnect"));
	client_init(&client, target.port);
	assert_int_equal(discover(&client.config, &result, &error), -1);
	assert_non_null(strstr(error.message, "while connect command"));
	target_stop(&target);

	target_start(&target, 0, ARGS("get-log:2=disconnect"));
	client_init(&client, target.port);
	assert_int_equal(discover(&client.config, &result, &error), -1);
	assert_non_null(strstr(error.message, "lost the connection"));
	target_stop(&target);

	for (unsigned seed = 0; seed < 8; seed++) {
		char arg[32];

		snprintf(arg, sizeof(arg), "seed=%u", seed);
		target_start(&target, 0, ARGS("get-log:2=garbage", "get-log:3=garbage", arg));
		client_init(&client, target.port);
		if (discover(&client.config, &result, &error) == 0)
			discover_result_release(&result);
		target_stop(&target);
	}
}

static int discover_at(const char *const *args, struct discover_result *ret_result,
		       struct error *ret_error)
{
	struct target target;
	int r;

	*ret_result = (struct discover_result){0};
	target_start(&target, 0, args);
	client_init(&client, target.port);
	r = discover(&client.config, ret_result, ret_error);
	target_stop(&target);
	return r;
}

/* At its first, second or third read the log becomes so short that nothing is where the host reads
 * on: it begins again. A refusal of a log that did not change is one. */
static void test_discovery_log_shrinks(void **state)
{
	struct discover_result result;
	struct error error;
	char arg[32];

	for (unsigned at = 2; at <= 5; at++) {
		snprintf(arg, sizeof(arg), "shrinks=%u", at);
		assert_int_equal(discover_at(ARGS("entries=12", arg), &result, &error), 0);
		assert_int_equal(result.n_records, 3);
		discover_result_release(&result);
	}
	assert_int_equal(discover_at(ARGS("entries=12", "get-log:3=status,4002"), &result, &error),
			 -1);
	assert_non_null(strstr(error.message, "Invalid Field"));
	assert_int_equal(discover_at(ARGS("entries=12", "get-log:4=status,4002", "shrinks=3"),
				     &result, &error),
			 -1);
	assert_non_null(strstr(error.message, "Invalid Field"));
	assert_int_equal(discover_at(ARGS("restless=1"), &result, &error), -1);
	assert_non_null(strstr(error.message, "does not stop changing"));
}

/* ---- paths that follow the log ------------------------------------------------------------- */

static char said[256];

/* "list" or "refer", and the ports of these targets. */
static void say(unsigned target, const char *word, unsigned n, const unsigned *of)
{
	size_t at = (size_t)snprintf(said, sizeof(said), "%s", word);

	for (unsigned i = 0; i < n; i++)
		at += (size_t)snprintf(said + at, sizeof(said) - at, " %u", targets[of[i]].port);
	target_say(&targets[target], said);
}
#define SAY(target, word, ...)                                                                     \
	say(target, word, ARRAY_LEN(((const unsigned[]){__VA_ARGS__})),                            \
	    (const unsigned[]){__VA_ARGS__})

/* As a front end does. */
static void see_off(void)
{
	union addr address;

	if (volume_path_leaving(client.volume, &address) &&
	    volume_path_go(client.volume, &address) == DEPARTURE_WANTS_FLUSH)
		assert_int_equal(do_flush(), 0);
}

static void wait_for(bool (*is_there)(const struct volume_status *status), const char *what)
{
	uint64_t until = clock_ns() + 120 * NSEC_PER_SEC;
	struct volume_status status = paths_status();

	while (!is_there(&status) && clock_ns() < until) {
		loop_turn(&world, 10 * NSEC_PER_MSEC);
		see_off();
		status = paths_status();
	}
	if (!is_there(&status))
		fail_msg("%s: %u paths, %u live; discovery: %s, %s", what, status.n_paths,
			 status.n_paths_live, status.n_services ? status.services[0].state : "-",
			 status.n_services ? status.services[0].last_error.message : "");
}

static bool has_log(const struct volume_status *status)
{
	return status->n_services && !strcmp(status->services[0].state, "live") &&
	       status->services[0].has_log;
}

static bool is_refused(const struct volume_status *status)
{
	return status->n_services && !strcmp(status->services[0].state, "refused");
}

static bool is_one(const struct volume_status *status)
{
	return status->n_paths == 1 && status->n_paths_live == 1;
}

static bool are_two(const struct volume_status *status)
{
	return status->n_paths == 2 && status->n_paths_live == 2;
}

static bool was_lost(const struct volume_status *status)
{
	return has_log(status) && *status->services[0].last_error.message;
}

static bool is_first_lost(const struct volume_status *status)
{
	return !strcmp(status->services[0].state, "lost") &&
	       status->paths[0].state == VOLUME_PATH_LOST;
}

static uint64_t last_generation;

static bool is_next_log(const struct volume_status *status)
{
	return has_log(status) && status->services[0].generation != last_generation;
}

/* The log is that of the targets in `of` now, and the volume has read it. */
static void change_log(unsigned n, const unsigned *of)
{
	last_generation = paths_status().services[0].generation;
	say(0, "list", n, of);
	wait_for(is_next_log, "the next log");
}

static void prepare_to_follow(const char *const *args)
{
	paths_prepare(2, 0, args);
	client.config.n_others = 0;
	client.config.finds_paths = true;
	SAY(0, "list", 0);
}

static void follow(const char *const *args)
{
	prepare_to_follow(args);
	paths_open_first();
	wait_for(has_log, "the log");
	assert_int_equal(paths_status().n_paths, 1);
}

static void find_second(void)
{
	SAY(0, "list", 0, 1);
	wait_for(are_two, "the second path");
	assert_false(paths_status().paths[0].is_found);
	assert_true(paths_status().paths[1].is_found);
}

static void an_event_brings_a_path_and_takes_it(void **state)
{
	follow(NULL);
	for (unsigned i = 0; i < 2; i++) {
		find_second();
		paths_write_to_each();
		SAY(0, "list", 0);
		wait_for(is_one, "the second path is gone");
		assert_int_equal(do_write(0), 0);
	}
	assert_int_equal(client.n_lost, 0);
	paths_end();
}

static void a_named_path_stays(void **state)
{
	prepare_to_follow(NULL);
	client.config.n_others = 1;
	SAY(0, "list", 0, 1);
	paths_open();
	wait_for(has_log, "the log");
	change_log(0, NULL);
	assert_int_equal(paths_status().n_paths_live, 2);
	assert_false(paths_status().paths[1].is_found);
	paths_end();
}

/* One that a user has removed comes back when it was missing in the log. */
static void a_removed_path_does_not_come_back(void **state)
{
	union addr second;
	struct error error;

	follow(NULL);
	find_second();
	second = paths_status().paths[1].address;
	assert_int_equal(volume_path_leave(client.volume, &second, false, &error), 0);
	wait_for(is_one, "the second path is gone");
	change_log(2, (const unsigned[]){0, 1});
	assert_true(paths_status().n_paths == 1);
	change_log(1, (const unsigned[]){0});
	find_second();
	paths_end();
}

static void a_lost_service_comes_back(void **state)
{
	follow(NULL);
	find_second();
	target_say(&targets[0], "drop");
	wait_for(was_lost, "discovery is back");
	assert_int_equal(paths_status().n_paths, 2);
	SAY(0, "list", 0);
	wait_for(is_one, "the second path is gone");
	find_second();
	target_kill(&targets[0]);
	wait_for(is_first_lost, "the first target is lost");
	assert_int_equal(do_io(&client, VOLUME_READ, 0, PIECE, buffer), 0);
	assert_int_equal(paths_status().n_paths, 2); /* what is away says nothing */
	paths_end();
}

/* It goes when the named one can serve again. */
static void the_last_path_that_serves_stays(void **state)
{
	follow(ARGS("ana=1"));
	find_second();
	target_say(&targets[0], "ana 3");
	while (strcmp(paths_status().paths[0].ana_state, "inaccessible") != 0)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	change_log(1, (const unsigned[]){0});
	see_off();
	assert_int_equal(paths_status().paths[1].state, VOLUME_PATH_LIVE);
	assert_int_equal(do_write(0), 0);
	target_say(&targets[0], "ana 1");
	wait_for(is_one, "the second path is gone");
	paths_end();
}

/* Its target died with a write, and only its next Connect says that the write is over. */
static void a_path_with_unproven_writes_stays(void **state)
{
	struct job jobs[2];

	follow(NULL);
	target_stop(&targets[1]);
	paths_start_again(1, ARGS("write=silence"));
	find_second();
	while (!paths_status().paths[1].n_queues_live)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	for (unsigned i = 0; i < 2; i++)
		job_start(&jobs[i], &client, VOLUME_WRITE, i * PIECE, PIECE, buffer);
	while (paths_status().paths[1].n_in_flight != 1 || paths_status().paths[0].n_in_flight)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	target_kill(&targets[1]);
	paths_wait(1, VOLUME_PATH_LOST);
	change_log(1, (const unsigned[]){0});
	world_run(1200); /* it is looked at again */
	assert_int_equal(paths_status().n_paths, 2);
	assert_int_equal(jobs[0].is_done + jobs[1].is_done, 1);
	paths_start_again(1, NULL);
	wait_for(is_one, "the second path is gone");
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(job_wait(&jobs[i], PATIENCE_MS), 0);
	paths_end();
}

static bool is_leaving(const struct volume_status *status)
{
	return status->paths[1].state == VOLUME_PATH_LEAVING;
}

static bool is_second_lost(const struct volume_status *status)
{
	return status->paths[1].state == VOLUME_PATH_LOST;
}

static bool has_read_on_second(const struct volume_status *status)
{
	return status->paths[1].n_in_flight == 1 && !status->paths[0].n_in_flight;
}

/* It is lost while it leaves, with acknowledged writes: it stays, and goes after their Flush. */
static void a_path_with_unflushed_writes_stays(void **state)
{
	struct job reads[2];

	follow(NULL);
	target_stop(&targets[1]);
	paths_start_again(1, ARGS("read=hold"));
	find_second();
	while (!paths_status().paths[1].n_queues_live)
		loop_turn(&world, 10 * NSEC_PER_MSEC);
	paths_write_to_each();
	assert_true(paths_status().paths[1].has_unflushed);
	for (unsigned i = 0; i < 2; i++)
		job_start(&reads[i], &client, VOLUME_READ, 0, PIECE, buffer);
	wait_for(has_read_on_second, "a read is held");
	SAY(0, "list", 0);
	wait_for(is_leaving, "the second path leaves");
	target_kill(&targets[1]);
	wait_for(is_second_lost, "it is lost, and stays");
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(job_wait(&reads[i], PATIENCE_MS), 0);
	proof_vouch(client.volume, &paths_status().paths[1].address); /* not of its cache */
	for (unsigned i = 0; i < 12; i++) {			      /* it is looked at again */
		world_run(100);
		see_off();
	}
	assert_int_equal(paths_status().n_paths, 2);
	assert_int_equal(paths_state_of(1), VOLUME_PATH_LOST);
	paths_start_again(1, NULL);
	wait_for(is_one, "the second path is gone");
	paths_end();
}

/* ---- hostile logs --------------------------------------------------------------------------- */

/* At most so many reads of pieces a second, and as many as those of `grace` seconds at once. */
static void expect_reads(unsigned per_second, unsigned grace)
{
	unsigned before = target_say(&targets[0], "reads"), n;
	uint64_t start_ns = clock_ns(), s;

	world_run(2500);
	n = target_say(&targets[0], "reads") - before;
	s = (clock_ns() - start_ns) / NSEC_PER_SEC + 1;
	if (n > per_second * (s + grace))
		fail_msg("%u reads in %llu s", n, (unsigned long long)s);
	assert_int_equal(do_write(0), 0);
	assert_int_equal(paths_status().paths[0].n_losses, 0);
}

static void logs_that_never_rest_do_not_spin(void **state)
{
	prepare_to_follow(ARGS("restless=1"));
	paths_open_first();
	wait_for(is_refused, "the log is refused");
	assert_non_null(
		strstr(paths_status().services[0].last_error.message, "does not stop changing"));
	expect_reads(25, 1); /* one attempt, of ten tries */
	paths_end();

	prepare_to_follow(ARGS("chatty=1"));
	paths_open_first();
	wait_for(has_log, "the log");
	expect_reads(3, 2);
	paths_end();
}

static void refuse_log(const char *arg)
{
	prepare_to_follow(ARGS(arg));
	SAY(0, "list", 0, 1);
	paths_open_first();
	wait_for(is_refused, arg);
	assert_int_equal(paths_status().n_paths, 1);
	assert_int_equal(do_write(0), 0);
	paths_end();
}

static void logs_without_sense_are_refused(void **state)
{
	refuse_log("claims=4294967295");
	refuse_log("get-log=garbage");
	refuse_log("get-log=status,4002");
}

static void a_volume_takes_few_of_many(void **state)
{
	prepare_to_follow(NULL);
	target_say(&targets[0], "list 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21");
	target_say(&targets[0], "refer 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21");
	paths_open_first();
	wait_for(has_log, "the log");
	assert_int_equal(paths_status().n_paths, VOLUME_PATHS_MAX);
	assert_int_equal(paths_status().n_services, VOLUME_SERVICES_MAX);
	assert_int_equal(do_write(0), 0);
	paths_end();
}

static bool has_referral(const struct volume_status *status)
{
	return status->n_services == 2 && status->services[1].has_log && are_two(status);
}

/* Each refers to both; what the second refers to is not followed. */
static void referrals_are_followed_one_step(void **state)
{
	prepare_to_follow(NULL);
	SAY(0, "refer", 0, 1);
	SAY(1, "list", 1);
	SAY(1, "refer", 0, 1);
	paths_open_first();
	wait_for(has_referral, "the second path");
	assert_true(paths_status().services[1].is_referral);
	paths_write_to_each();
	target_say(&targets[0], "refer");
	wait_for(is_one, "the second path is gone");
	assert_int_equal(paths_status().n_services, 1);
	paths_end();
}

/* The referral by which a path was found ends before the volume itself has read the log. */
static void a_referral_may_end_before_it_is_read(void **state)
{
	prepare_to_follow(NULL);
	client.config.n_others = 1;
	client.config.others_found_at[0] = client.config.others[0];
	client.config.found_by = client.config.address;
	SAY(1, "list", 1);
	paths_open_first();
	wait_for(is_one, "the second path is gone");
	assert_int_equal(paths_status().n_services, 1);
	paths_end();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_discovery),
		CASE(test_discovery_log_shrinks),
		CASE(an_event_brings_a_path_and_takes_it),
		CASE(a_named_path_stays),
		CASE(a_removed_path_does_not_come_back),
		CASE(a_lost_service_comes_back),
		CASE(the_last_path_that_serves_stays),
		CASE(a_path_with_unproven_writes_stays),
		CASE(a_path_with_unflushed_writes_stays),
		CASE(logs_that_never_rest_do_not_spin),
		CASE(logs_without_sense_are_refused),
		CASE(a_volume_takes_few_of_many),
		CASE(referrals_are_followed_one_step),
		CASE(a_referral_may_end_before_it_is_read),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_discovery", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
