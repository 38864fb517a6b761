/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl clear: acknowledges disk errors, so that they no longer make the state of rblkd
 * "degraded". The counters stay: an error that occurs again makes it degraded again.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/rblkctl/rblkctl.h"

static void show_cleared(struct json_object *result)
{
	printf("cleared: %" PRIu64 " namespace%s\n", answer_number(result, "cleared"),
	       answer_number(result, "cleared") == 1 ? "" : "s");
}

int run_clear(int argc, char **argv)
{
	static const struct one_call call = {
		.usage =
			{
				.program = "rblkctl clear",
				.positional = "[NQN[/NSID]]",
				.summary =
					"Acknowledge disk errors of all namespaces, of a subsystem, or of one namespace.",
				.max_positional = 1,
			},
		.method = "clear",
		.key = "name",
		.show = show_cleared,
	};

	return run_one_call(&call, argc, argv);
}
