/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl drain: starts the drain of a portal in rblkd, then polls until its connections are
 * closed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

enum {
	PATIENCE_S = 30, /* rblkd disconnects after 10; I/O at a slow disk takes longer */
	LOOK_MS = 50,
};

/* Asking again changes nothing: rblkd answers with the state, so the same call polls. */
static int ask(const struct options *options, const char *portal, bool is_undo,
	       struct json_object **ret_result)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "portal", json_object_new_string(portal));
	json_object_object_add(params, "undo", json_object_new_boolean(is_undo));
	return client_call(options, "drain", params, ret_result);
}

/* EXIT_OK with the last answer, and the hosts of the first: later they are gone. */
static int wait_drained(const struct options *options, const char *portal,
			struct json_object **result)
{
	struct json_object *cut = json_object_get(answer_member(*result, "hosts_without_path"));
	uint64_t deadline = clock_ns() + PATIENCE_S * NSEC_PER_SEC;
	int r = EXIT_OK;

	while (r == EXIT_OK && answer_number(*result, "queue_pairs") && clock_ns() < deadline) {
		json_object_put(*result);
		clock_sleep_ns(LOOK_MS * NSEC_PER_MSEC);
		r = ask(options, portal, false, result);
	}
	if (r == EXIT_OK)
		json_object_object_add(*result, "hosts_without_path", cut);
	else
		json_object_put(cut);
	return r;
}

/* Connections left at the end of our patience are a partial success: the drain goes on in rblkd. */
static int print_result(const struct options *options, struct json_object *result)
{
	bool is_undone = strcmp(answer_string(result, "state"), "drained") != 0;
	uint64_t n = is_undone ? 0 : answer_number(result, "queue_pairs");

	if (options->output == OUTPUT_JSON)
		output_json(result);
	else if (n)
		printf("%s: %s, %" PRIu64 " connection%s left\n", answer_string(result, "portal"),
		       answer_string(result, "state"), n, n == 1 ? "" : "s");
	else
		printf("%s: %s\n", answer_string(result, "portal"), answer_string(result, "state"));
	return n ? EXIT_PARTIAL : EXIT_OK;
}

/* --undo does not wait: listening again is over at once. */
int run_drain(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl drain",
		.positional = "PORTAL",
		.summary =
			"Stop listening on a portal, and let its connections finish their commands.",
		.min_positional = 1,
		.max_positional = 1,
	};
	bool is_undo = false;
	const struct arg more = {"undo", 0, ARG_FLAG, &is_undo, NULL, "listen again"};
	struct json_object *result;
	struct options options;
	int first, r = options_parse_with(&usage, &more, 1, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	r = ask(&options, argv[first], is_undo, &result);
	if (r != EXIT_OK)
		return r;
	if (options.output != OUTPUT_JSON)
		print_cut_hosts(result);
	if (!is_undo)
		r = wait_drained(&options, argv[first], &result);
	if (r != EXIT_OK)
		return r;
	r = print_result(&options, result);
	json_object_put(result);
	return r;
}
