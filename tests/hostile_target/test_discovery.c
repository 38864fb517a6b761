/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the discovery log of a target: good, lost, without sense, and changing meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/log.h"
#include "initiator/control/discover.h"
#include "tests/hostile_target/world.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_discovery(void **state)
{
	struct target target;
	struct client client;
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
	struct client client;
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

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_discovery),
		CASE(test_discovery_log_shrinks),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	log_init("test_discovery", getenv("DEBUG") ? LOG_DEBUG : LOG_ERR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
