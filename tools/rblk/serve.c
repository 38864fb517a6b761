/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk serve: the volume process, in the foreground for users and service managers, in the
 * background for rblk attach, which gives it a pipe (--ready-fd). Through that goes one JSON
 * object: {"note"} when the volume can be used, {"code", "message", "hint"} when it cannot.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd_limit.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/units.h"
#include "initiator/control/discover.h"
#include "initiator/control/find_paths.h"
#include "nbd_bridge/control/bridge.h"
#include "nbd_bridge/control/frontend_socket.h"
#include "tools/rblk/arguments.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/socket_options.h"
#include "tools/rblk/volume_options.h"
#include "transport/fabric.h"

static const char program[] = "rblk serve";

struct serve {
	struct volume_options options;
	struct bridge_config config;
	uint64_t ready_fd; /* 0: none */
	unsigned output;
	bool is_stdio;
	char control_path[PATH_MAX], names_path[PATH_MAX], lock_path[PATH_MAX];
	char state_path[PATH_MAX];
};

/* Once: closing the pipe is part of the message, because the parent reads until its end. */
static void tell_parent(struct serve *serve, struct json_object *message)
{
	FILE *pipe = fdopen((int)serve->ready_fd, "w");

	if (pipe) {
		fprintf(pipe, "%s\n", json_object_to_json_string(message));
		fclose(pipe);
	}
	serve->ready_fd = 0;
	json_object_put(message);
}

/* The service manager is notified, and then either the parent by the pipe or the user by a line on
 * stdout. With --stdio stdout is the NBD connection, and must carry nothing else. */
static void on_ready(void *context, const struct bridge_ready *ready)
{
	struct serve *serve = context;
	const struct bridge_config *config = &serve->config;
	char size[UNITS_MAX];

	notify_manager("READY=1");
	if (serve->ready_fd) {
		struct json_object *message = json_object_new_object();

		json_object_object_add(message, "note", json_object_new_string(ready->note));
		tell_parent(serve, message);
		return;
	}
	if (*ready->note)
		fprintf(stderr, "rblk: %s\n", ready->note);
	if (serve->is_stdio)
		return;
	printf("%s  %s  %s  %s/%u  paths 1/%u\n", *ready->device ? ready->device : ready->uri,
	       config->name, units_format_size(size, ready->info->size_bytes),
	       config->volume.subnqn, config->volume.nsid, config->volume.n_others + 1);
	fflush(stdout);
}

/* The parent prints the error; the log file gets it as well, for it outlives the terminal. */
static int report_failure(struct serve *serve, const struct error *error)
{
	struct json_object *message;

	if (!serve->ready_fd)
		return report_error(program, error);
	log_err("%s", error->message); /* for the log file */
	message = json_object_new_object();
	json_object_object_add(message, "code", json_object_new_int((int)error->code));
	json_object_object_add(message, "message", json_object_new_string(error->message));
	json_object_object_add(message, "hint", json_object_new_string(error->hint));
	tell_parent(serve, message);
	return (int)error->code;
}

/* With --stdio the one client is there already: no control socket or NBD socket is needed. */
static int choose_paths(struct serve *serve, struct error *error)
{
	struct frontend_socket_config *sockets = &serve->config.sockets;
	int r = 0;

	sockets->is_stdio = serve->is_stdio;
	sockets->n_inherited = frontend_n_inherited();
	if (serve->options.socket_path || !serve->is_stdio)
		r = volume_options_socket(&serve->options, &serve->config, error);
	if (r || serve->is_stdio)
		return r;
	r = run_dir_create(error);
	if (r == 0)
		r = run_dir_path(serve->control_path, serve->config.name, "sock", error);
	if (r == 0)
		r = run_dir_names(serve->names_path, error);
	serve->config.kernel.names_directory = serve->names_path;
	if (r == 0)
		r = run_dir_lock_path(serve->lock_path, error);
	if (r == 0)
		r = run_dir_path(serve->state_path, serve->config.name, "fence", error);
	snprintf(serve->config.volume.state_file, sizeof(serve->config.volume.state_file),
		 "%.1000s", r == 0 ? serve->state_path : "");
	serve->config.control_path = serve->control_path;
	serve->config.lock_path = serve->lock_path;
	return r;
}

/* A target without the subsystem may have one of a similar name: discover_suggest names it. */
static int run(struct serve *serve, const char *target)
{
	struct error error = {0};
	int code = volume_options_apply(&serve->options, target, &serve->config, &error);

	if (code == 0)
		code = choose_paths(serve, &error);
	if (code)
		return report_failure(serve, &error);
	log_set_about(LOG_ABOUT(.volume = serve->config.name,
				.subsystem = serve->config.volume.subnqn,
				.nsid = serve->config.volume.nsid));
	if (serve->options.is_verbose)
		log_set_level(LOG_DEBUG);
	code = serve->config.volume.finds_paths ? find_paths(&serve->config.volume, &error)
						: EXIT_OK;
	if (code)
		return report_failure(serve, &error);
	code = bridge_run(&serve->config, &error);
	if (code == EXIT_OK)
		return EXIT_OK;
	discover_suggest(&serve->config.volume, &error);
	return report_failure(serve, &error);
}

int serve_main(int argc, char **argv)
{
	struct serve serve = {.config = {.on_ready = on_ready, .context = &serve}};
	struct arg table[VOLUME_OPTIONS_MAX] = {
		{"stdio", 0, ARG_FLAG, &serve.is_stdio, NULL,
		 "speak NBD on standard input and output, end with the client"},
		{"ready-fd", 0, ARG_UINT, &serve.ready_fd, "N",
		 "report there, in JSON, that the volume is ready, or why not", 3, 1 << 20},
		{"output", 'o', ARG_CHOICE, &serve.output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
	};
	const struct args_usage usage = {
		program, "NQN@ADDRESS[:PORT]",
		"Attach a namespace in the foreground and serve it by NBD until SIGTERM.", 1, 1};
	int at, code;

	volume_options_init(&serve.options, BRIDGE_FRONTEND_SOCKET);
	volume_options_table(&serve.options, table, 3);
	code = args_parse(&usage, table, argc, argv, &at);
	if (code >= 0)
		return code;
	log_show_time(LOG_TIME_AUTO);
	code = fd_limit_raise(program) ?: fabric_select(program, serve.options.fabric, arguments);
	return code ? code : run(&serve, argv[at]);
}
