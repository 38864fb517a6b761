/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk path add, rblk path remove: the paths of a volume that is attached and used. The volume
 * process does it (nbd_bridge/control/bridge_path.c); these commands wait for the outcome, which
 * they read from its status. A path that cannot be connected is taken out again, so that a slip
 * changes nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/rpc_client.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/target_name.h"
#include "tools/rblk/volumes.h"

enum {
	CALL_TIMEOUT_MS = 5000,
};
#define INTERVAL_NS (50 * NSEC_PER_MSEC)

struct change {
	const char *program, *method, *summary, *until; /* until: what --wait waits for */
	int (*make)(const struct change *change, struct json_object **ret_status,
		    struct error *error);
	uint64_t wait_ns;
	bool is_kept; /* also when it cannot be connected */
	bool is_dead; /* its target, for sure */
	unsigned output;
	char name[VOLUME_NAME_MAX], socket[PATH_MAX];
	char address[ADDR_STRING_MAX];
};

/* 0 with the status of the volume, or an exit code with *error. */
static int call(const struct change *change, const char *method, struct json_object **ret_status,
		struct error *error)
{
	struct json_object *params = json_object_new_object();
	struct error said = {0};
	int r;

	json_object_object_add(params, "address", json_object_new_string(change->address));
	json_object_object_add(params, "dead", json_object_new_boolean(change->is_dead));
	r = rpc_call(change->socket, method, params, CALL_TIMEOUT_MS, ret_status, &said);
	json_object_put(params);
	if (r == 0)
		return 0;
	if (r == -EREMOTEIO)
		error_set(error, said.code, said.hint, "%s", said.message);
	else
		error_set(error, EXIT_UNREACHABLE, "see `rblk status`",
			  "the volume process of %s does not answer: %s", change->name,
			  strerror(-r));
	return (int)error->code;
}

/* Borrowed from the status; NULL: the volume has no such path. */
static struct json_object *find_path(struct json_object *status, const char *address)
{
	struct json_object *paths = NULL;

	if (!json_object_object_get_ex(status, "path_list", &paths) || !paths)
		return NULL;
	for (size_t i = 0; i < json_object_array_length(paths); i++) {
		struct json_object *path = json_object_array_get_idx(paths, i);

		if (!strcmp(json_text(path, "address"), address))
			return path;
	}
	return NULL;
}

/* "" if it is none, or none any more. */
static const char *state_of(const struct change *change, struct json_object *status)
{
	struct json_object *path = find_path(status, change->address);

	return path ? json_text(path, "state") : "";
}

/* Until the path is in the wanted state, in one that only a person can change, or time is up. */
static int wait_until(const struct change *change, const char *wanted, struct json_object **status,
		      struct error *error)
{
	static const char *const finals[] = {"denied", "gone", "other", "unfit"};
	uint64_t until = clock_ns() + change->wait_ns;
	int code = 0;

	while (code == 0) {
		const char *state = state_of(change, *status);

		if (!strcmp(state, wanted) || clock_ns() >= until)
			return 0;
		for (size_t i = 0; *wanted && i < sizeof(finals) / sizeof(*finals); i++)
			if (!strcmp(state, finals[i]))
				return 0;
		clock_sleep_ns(INTERVAL_NS);
		json_object_put(*status);
		*status = NULL;
		code = call(change, "status", status, error);
	}
	return code;
}

/* ---- add ---- */

/* Takes the reason from the path itself, not from the volume's state. */
static void explain(const struct change *change, struct json_object *status, struct error *error)
{
	struct json_object *path = find_path(status, change->address), *last = NULL;
	const char *kept = change->is_kept ? ", and is tried again" : "";

	if (path)
		json_object_object_get_ex(path, "last_error", &last);
	if (last)
		error_set(error, (enum exit_code)json_number(last, "code"), json_text(last, "hint"),
			  "%.40s cannot be a path of %s%s: %s", change->address, change->name, kept,
			  json_text(last, "message"));
	else
		error_set(error, EXIT_UNREACHABLE, "is the target's portal there?",
			  "%.40s does not answer, so it is no path of %s so far%s", change->address,
			  change->name, kept);
}

/* 0 when the path is live. An error tells what became of it: is it tried again, or taken out? */
static int add(const struct change *change, struct json_object **ret_status, struct error *error)
{
	struct json_object *removed = NULL;
	struct error ignored;
	int code = call(change, change->method, ret_status, error);

	if (code == 0)
		code = wait_until(change, "live", ret_status, error);
	if (code || !strcmp(state_of(change, *ret_status), "live"))
		return code;
	explain(change, *ret_status, error);
	if (!change->is_kept) {
		call(change, "path.remove", &removed, &ignored);
		json_object_put(removed);
	}
	return (int)error->code;
}

/* ---- remove ---- */

/* Before it goes: a target that is lost cannot flush what it has acknowledged. */
static bool leaves_unflushed(struct json_object *status, const char *address)
{
	struct json_object *path = find_path(status, address), *unflushed = NULL;

	return path && strcmp(json_text(path, "state"), "live") != 0 &&
	       json_object_object_get_ex(path, "unflushed", &unflushed) &&
	       json_object_get_boolean(unflushed);
}

/* 0 when the path is gone. The volume process goes on by itself if this gives up waiting. */
static int remove_path(const struct change *change, struct json_object **ret_status,
		       struct error *error)
{
	struct json_object *before = NULL;
	bool is_unflushed;
	int code = call(change, "status", &before, error);

	is_unflushed = code == 0 && leaves_unflushed(before, change->address);
	json_object_put(before);
	if (code == 0)
		code = call(change, change->method, ret_status, error);
	if (code == 0)
		code = wait_until(change, "", ret_status, error);
	if (code == 0 && is_unflushed && change->output == OUTPUT_TABLE)
		fprintf(stderr,
			"%s: note: %s has acknowledged writes that were not flushed: they are lost if it lost power\n",
			change->program, change->address);
	if (code || !find_path(*ret_status, change->address))
		return code;
	error_set(error, EXIT_BUSY, "it goes by itself then; see `rblk status`",
		  "%.40s is still leaving: it has I/O in flight, or its flush is not done",
		  change->address);
	return EXIT_BUSY;
}

/* ---- both ---- */

/* The paths that there are now, or all of the status. */
static int show(const struct change *change, struct json_object *status)
{
	struct json_object *paths = NULL;

	if (change->output == OUTPUT_JSON)
		return report_json(json_object_get(status));
	json_object_object_get_ex(status, "path_list", &paths);
	for (size_t i = 0; paths && i < json_object_array_length(paths); i++) {
		struct json_object *path = json_object_array_get_idx(paths, i);

		printf("%-28s %s\n", json_text(path, "address"), json_text(path, "state"));
	}
	return EXIT_OK;
}

/* argv: what the user calls the volume, and the address. Returns the exit code. */
static int run(struct change *change, char **argv)
{
	struct json_object *status = NULL;
	struct error error = {0};
	union addr address;
	int code = target_address_parse(argv[1], &address, &error);

	if (code == 0)
		code = volumes_find_socket(argv[0], change->name, change->socket, &error);
	if (code == 0) {
		addr_format(change->address, &address);
		code = change->make(change, &status, &error);
	}
	code = code ? report_error(change->program, &error) : show(change, status);
	json_object_put(status);
	return code;
}

/* own: the option that only this command has. */
static int parse_and_run(struct change *change, const struct arg *own, int argc, char **argv)
{
	const struct arg table[] = {
		*own,
		{"wait", 'w', ARG_DURATION, &change->wait_ns, "TIME", change->until, 0,
		 3600 * NSEC_PER_SEC},
		{"output", 'o', ARG_CHOICE, &change->output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {change->program, "NAME|DEVICE ADDRESS[:PORT]",
					 change->summary, 2, 2};
	int at, code = args_parse(&usage, table, argc, argv, &at);

	return code >= 0 ? code : run(change, argv + at);
}

int path_add_main(int argc, char **argv)
{
	struct change change = {
		.program = "rblk path add",
		.method = "path.add",
		.summary = "Add a path to a volume while it is used.",
		.until = "until it is connected (default: 10s)",
		.wait_ns = 10 * NSEC_PER_SEC,
		.make = add,
	};
	const struct arg keep = {
		"keep",		 'k',  ARG_FLAG,
		&change.is_kept, NULL, "keep it, and try it again, if it cannot be connected now"};

	return parse_and_run(&change, &keep, argc, argv);
}

int path_remove_main(int argc, char **argv)
{
	struct change change = {
		.program = "rblk path remove",
		.method = "path.remove",
		.summary = "Remove a path from a volume: other paths take over its I/O first.",
		.until = "until its I/O is done and flushed (default: 30s)",
		.wait_ns = 30 * NSEC_PER_SEC,
		.make = remove_path,
	};
	const struct arg dead = {
		"dead",	  0,
		ARG_FLAG, &change.is_dead,
		NULL,	  "its machine is off, for sure: writes that wait for it go on"};

	return parse_and_run(&change, &dead, argc, argv);
}
