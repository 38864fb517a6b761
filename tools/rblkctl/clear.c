/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl clear: acknowledges disk errors, so that they no longer make the state of rblkd
 * "degraded". The counters stay: an error that occurs again makes it degraded again.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/rblkctl/rblkctl.h"

int run_clear(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl clear",
		.positional = "[NQN[/NSID]]",
		.summary =
			"Acknowledge disk errors of all namespaces, of a subsystem, or of one namespace.",
		.max_positional = 1,
	};
	struct json_object *params, *result;
	struct options options;
	int first, r = options_parse(&usage, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	params = json_object_new_object();
	if (first < argc)
		json_object_object_add(params, "name", json_object_new_string(argv[first]));
	r = client_call(&options, "clear", params, &result);
	if (r != EXIT_OK)
		return r;
	if (options.output == OUTPUT_JSON)
		output_json(result);
	else
		printf("cleared: %" PRIu64 " namespace%s\n", answer_number(result, "cleared"),
		       answer_number(result, "cleared") == 1 ? "" : "s");
	json_object_put(result);
	return EXIT_OK;
}
