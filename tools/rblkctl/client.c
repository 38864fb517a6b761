/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/output.h"
#include "base/rpc_client.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/rblkctl.h"

enum {
	TIMEOUT_MS = 10000,
};

/* The socket's path comes first: with several rblkd it shows which one was asked. */
static void set_error(struct error *error, enum exit_code code, const char *socket,
		      const char *message, const char *hint)
{
	error->code = code;
	snprintf(error->message, sizeof(error->message), "%s: %s", socket, message);
	snprintf(error->hint, sizeof(error->hint), "%s", hint);
}

/* Explains an errno of connect or read to an administrator, and what to do about it. */
static void explain(int r, const char *socket, struct error *error)
{
	switch (r) {
	case -EREMOTEIO:
		break; /* rblkd returned the message */
	case -ENOENT:
	case -ECONNREFUSED:
		set_error(
			error, EXIT_UNREACHABLE, socket, "rblkd is not running",
			"start it (systemctl start rblkd), or name its control_socket with --socket");
		break;
	case -EACCES:
	case -EPERM:
		set_error(error, EXIT_DENIED, socket, "not allowed to ask rblkd",
			  "run rblkctl as root, or as the user of rblkd");
		break;
	case -ETIMEDOUT:
		set_error(error, EXIT_UNREACHABLE, socket, "rblkd does not answer",
			  "look at its log: journalctl -u rblkd");
		break;
	default:
		set_error(error, EXIT_UNREACHABLE, socket, strerror(-r),
			  "is it the control socket of rblkd?");
	}
}

/* A call of rblkd is local and short; TIMEOUT_MS is for one that hangs. */
int client_call(const struct options *options, const char *method, struct json_object *params,
		struct json_object **ret_result)
{
	struct error error = {.code = EXIT_FAILED};
	int r = rpc_call(options->socket, method, params, TIMEOUT_MS, ret_result, &error);

	json_object_put(params);
	if (r == 0)
		return EXIT_OK;
	explain(r, options->socket, &error);
	return fail_with("rblkctl", error.code, *error.hint ? error.hint : NULL, "%s",
			 error.message);
}

int client_try(const struct options *options, const char *method, struct json_object **ret_result)
{
	struct error error;

	return rpc_call(options->socket, method, NULL, TIMEOUT_MS, ret_result, &error);
}

/* They hold their I/O, or fail it: an administrator has to know that. */
void print_cut_hosts(struct json_object *answer)
{
	struct json_object *hosts = answer_member(answer, "hosts_without_path");

	for (size_t i = 0; hosts && i < json_object_array_length(hosts); i++)
		fprintf(stderr, "warning: host %s has no other path to what it uses\n",
			json_object_get_string(json_object_array_get_idx(hosts, i)));
}
