/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl capture: the next commands that hosts send, and rblkd's responses, as a pcapng file.
 * rblkd itself has seen them, so it works with any RDMA device.
 */
#include "base/bits.h"
#include "base/clock.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"
#include "tools/shared/capture.h"

static int call(void *context, struct json_object *params, struct json_object **ret_result)
{
	return client_call(context, "capture", params, ret_result);
}

int run_capture(int argc, char **argv)
{
	static const char program[] = "rblkctl capture";
	static struct capture_options capture;
	static const struct arg more[] = {CAPTURE_ARGS(capture)};
	static const struct args_usage usage = {
		.program = program,
		.positional = "",
		.summary = "Write the next commands and responses to a pcapng file.",
	};
	struct options options;
	int first,
		r = options_parse_with(&usage, more, ARRAY_LEN(more), argc, argv, &options, &first);

	if (r >= 0)
		return r;
	capture.output = options.output;
	r = capture_check(program, &capture);
	if (r != EXIT_OK)
		return r;
	return capture_run(program, &capture, "rblkd", call, &options);
}
