/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk capture: the next commands of an attached volume, and the target's responses, as a pcapng
 * file. The volume process itself has seen them, so it works with any RDMA device.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/rpc_client.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/volumes.h"
#include "tools/shared/capture.h"

static const char program[] = "rblk capture";

enum {
	CALL_TIMEOUT_MS = 10000,
};

static int call(void *context, struct json_object *params, struct json_object **ret_result)
{
	const char *path = context;
	struct error error = {.code = EXIT_FAILED};
	int r = rpc_call(path, "capture", params, CALL_TIMEOUT_MS, ret_result, &error);

	json_object_put(params);
	if (r == 0)
		return EXIT_OK;
	if (r != -EREMOTEIO)
		error_set(&error, EXIT_UNREACHABLE, "see `rblk status`",
			  "the volume process does not answer: %s", strerror(-r));
	return report_error(program, &error);
}

int capture_main(int argc, char **argv)
{
	struct capture_options capture = {0};
	const struct arg table[] = {
		CAPTURE_ARGS(capture),
		{"output", 'o', ARG_CHOICE, &capture.output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {
		program, "NAME|DEVICE|NQN@ADDRESS[:PORT]",
		"Write a volume's next commands and responses to a pcapng file.", 1, 1};
	char name[VOLUME_NAME_MAX], path[PATH_MAX];
	struct error error;
	int at, code = args_parse(&usage, table, argc, argv, &at);

	if (code >= 0)
		return code;
	code = capture_check(program, &capture);
	if (code)
		return code;
	if (volumes_find_socket(argv[at], name, path, &error))
		return report_error(program, &error);
	return capture_run(program, &capture, "rblk", call, path);
}
