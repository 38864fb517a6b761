/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl host disconnect: ends the associations of a host now. It does not wait for their end, and
 * it does not keep the host out.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/rblkctl/rblkctl.h"

/* The host is told to be gone, and may be back before this is printed. */
static void show_ended(struct json_object *result)
{
	uint64_t n = answer_number(result, "controllers");

	if (n)
		printf("%s: %" PRIu64 " association%s ended; it may connect again\n",
		       answer_string(result, "host"), n, n == 1 ? "" : "s");
	else
		printf("%s: not connected\n", answer_string(result, "host"));
}

/* A host that is configured and not connected is no error: there is nothing to end. */
int run_host_disconnect(int argc, char **argv)
{
	static const struct one_call call = {
		.usage =
			{
				.program = "rblkctl host disconnect",
				.positional = "NQN",
				.summary =
					"End all associations of a host now, named by its NQN or as in the configuration. It may connect again.",
				.min_positional = 1,
				.max_positional = 1,
			},
		.method = "host_disconnect",
		.key = "host",
		.show = show_ended,
	};

	return run_one_call(&call, argc, argv);
}
