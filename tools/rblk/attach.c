/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk attach: starts a volume process in the background and waits until it is ready or has failed;
 * then prints one line with the volume's device or URI, or returns the error and exit code of the
 * process.
 *
 * Attaching again with the same options succeeds and prints the same line. The control socket
 * decides between two attaches at the same time: the second process cannot create it, and its
 * parent finds the volume of the first.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd_limit.h"
#include "base/cleanup.h"
#include "base/output.h"
#include "tools/rblk/arguments.h"
#include "tools/rblk/attach_all.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/option_words.h"
#include "tools/rblk/persist.h"
#include "tools/rblk/reopen.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/same_options.h"
#include "tools/rblk/socket_options.h"
#include "tools/rblk/volume_options.h"
#include "tools/rblk/volumes.h"
#include "transport/fabric.h"

static const char program[] = "rblk attach";

enum {
	SILENT_MS = 2000,
};

struct attach {
	struct volume_options options;
	struct bridge_config config;
	unsigned output;
	bool is_all, is_persistent;
	const char *directory; /* of --from; NULL */
	int argc;
	char **args; /* borrowed: what followed "attach" */
};

/* The line is the interface to scripts: DEVICE or URI, name, size, subsystem, paths. */
static int show(const struct attach *attach, struct json_object *status)
{
	if (attach->output == OUTPUT_JSON)
		return report_json(json_object_get(status));
	volume_print_line(status);
	return EXIT_OK;
}

/* It is attached, but no I/O goes through: a success that needs a word. */
static void note_state(const struct attach *attach, struct json_object *status)
{
	struct json_object *last = NULL;
	const char *state = json_text(status, "state");

	if (attach->output == OUTPUT_JSON || !strcmp(state, "live"))
		return;
	json_object_object_get_ex(status, "last_error", &last);
	fprintf(stderr, "%s: note: %s is %s%s%s\n", program, json_text(status, "name"), state,
		last ? ": " : "", last ? json_text(last, "message") : "");
}

/* One that has failed tries its target again first. */
static int show_same(const struct attach *attach, struct json_object *status)
{
	struct error error;
	struct json_object *now;
	int code;

	if (strcmp(json_text(status, "state"), "failed") != 0) {
		note_state(attach, status);
		return show(attach, status);
	}
	code = reopen_volume(json_text(status, "name"), &now, &error);
	if (code)
		return report_error(program, &error);
	code = show(attach, now);
	json_object_put(now);
	return code;
}

/* Shows the volume if it is attached. Returns whether nothing is left to do, with the exit code. */
static bool show_attached(const struct attach *attach, int *ret_code)
{
	struct error error;
	struct json_object *same, *taken;
	struct volumes volumes;
	int code = volumes_read(&volumes, &error);

	same = code ? NULL : volumes_find_same(&volumes, &attach->config.volume);
	taken = code ? NULL : volumes_find_name(&volumes, attach->config.name);
	if (code == 0 && same)
		code = same_options_check(same, &attach->options, &attach->config, &error);
	if (code) {
		*ret_code = report_error(program, &error);
	} else if (same) {
		*ret_code = show_same(attach, same);
	} else if (taken) {
		/* without an answer its target is not known */
		const char *nqn = json_text(taken, "subsystem");

		error_set(&error, EXIT_BUSY, "choose another --name", "there is a volume '%s'%s%s",
			  attach->config.name, *nqn ? " of " : ", which does not answer", nqn);
		*ret_code = report_error(program, &error);
	}
	volumes_release(&volumes);
	return code || same || taken;
}

/* ---- the volume process -------------------------------------------------------------------- */

/* The volume process parses the user's own words again, so an option is described in one place. */
static char **make_argv(const struct attach *attach, char *fd_text)
{
	static const char *const frontends[] = {"auto", "nbd", "socket"};
	static const struct option_drop drop[] = {{"persist", 0, false}, {0}};
	_autofree_ const char **words = calloc((size_t)attach->argc + 1, sizeof(*words));
	char **argv = calloc((size_t)attach->argc + 10, sizeof(*argv));
	const char *ours[] = {"rblk",  "serve",	     "--ready-fd",
			      fd_text, "--frontend", frontends[attach->options.frontend]};
	unsigned n = 0, n_words;

	if (!argv || !words) {
		free(argv);
		return NULL;
	}
	/* Ours come first, so that a "--" among the user's does not hide them. */
	for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		argv[n++] = strdup(ours[i]);
	n_words = option_words_keep(attach->args, (unsigned)attach->argc, drop, words);
	for (unsigned i = 0; i < n_words; i++)
		argv[n++] = strdup(words[i]);
	return argv;
}

static void free_argv(char **argv)
{
	for (unsigned i = 0; argv && argv[i]; i++)
		free(argv[i]);
	free(argv);
}

/* A session of its own, so that a signal to the terminal's group does not end the volume. Its
 * output goes to its log; ready_fd has no CLOEXEC, so it inherits that descriptor. */
static int spawn(const struct attach *attach, int ready_fd, const char *log_path, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char fd_text[16];
	char **argv;
	int r;

	snprintf(fd_text, sizeof(fd_text), "%d", ready_fd);
	argv = make_argv(attach, fd_text);
	if (!argv)
		return -ENOMEM;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log_path,
					 O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0640);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
	r = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	free_argv(argv);
	return -r;
}

/* A target without an answer takes 10 s: a person is told what this waits for. */
static void say_wait(const struct attach *attach, int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char address[ADDR_STRING_MAX];

	if (isatty(STDERR_FILENO) && poll(&ready, 1, SILENT_MS) == 0)
		fprintf(stderr, "%s: waiting for %s\n", program,
			addr_format(address, &attach->config.volume.address));
}

/* The object that the process sends; NULL when it ended without sending one. The pipe closes in
 * both cases, so the wait needs no timeout: the process bounds its own first attempt. */
static struct json_object *read_message(int fd)
{
	char text[4096];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(text) - 1 && (got = read(fd, text + n, sizeof(text) - 1 - n)) != 0) {
		if (got < 0 && errno != EINTR)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	text[n] = '\0';
	return n ? json_tokener_parse(text) : NULL;
}

/* The process has reported its failure itself; only a crash leaves nothing but the log. */
static int fail_from_message(struct json_object *message, const char *log_path, struct error *error)
{
	char hint[PATH_MAX + 16];

	snprintf(hint, sizeof(hint), "see %.230s", log_path);
	if (!message)
		error_set(error, EXIT_FAILED, hint, "the volume process died");
	else
		error_set(error, (enum exit_code)json_number(message, "code"),
			  json_text(message, "hint"), "%s", json_text(message, "message"));
	return (int)error->code;
}

/* Returns when the volume is ready: 0, or an exit code with *error filled. */
static int start(const struct attach *attach, struct error *error)
{
	char log_path[PATH_MAX];
	struct json_object *message, *note = NULL;
	int fds[2], code = run_dir_create(error), r;
	pid_t pid;

	if (code == 0)
		code = run_dir_path(log_path, attach->config.name, "log", error);
	if (code)
		return code;
	r = pipe(fds) < 0 || fcntl(fds[0], F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
	if (r == 0)
		r = spawn(attach, fds[1], log_path, &pid);
	if (r < 0) {
		error_set(error, EXIT_FAILED, NULL, "cannot start the volume process: %s",
			  strerror(-r));
		return EXIT_FAILED;
	}
	close(fds[1]);
	say_wait(attach, fds[0]);
	message = read_message(fds[0]);
	close(fds[0]);
	if (message && json_object_object_get_ex(message, "note", &note)) {
		if (*json_object_get_string(note))
			fprintf(stderr, "rblk: %s\n", json_object_get_string(note));
	} else {
		code = fail_from_message(message, log_path, error);
		waitpid(pid, NULL, 0);
	}
	json_object_put(message);
	return code;
}

/* Only this volume is asked: many attaches at once would otherwise each ask all others. Returns and
 * stores as show_attached. */
static bool show_started(const struct attach *attach, int *ret_code)
{
	struct json_object *status = volumes_ask(attach->config.name);
	bool is_there = status && *json_text(status, "subsystem"); /* else it does not answer */

	if (is_there)
		*ret_code = show_same(attach, status);
	json_object_put(status);
	return is_there || show_attached(attach, ret_code);
}

/* EXIT_BUSY of start() is the race of two attaches: the other one has won, and its volume is shown
 * if it is the same. */
static int run(struct attach *attach, const char *target)
{
	struct error error = {0};
	int code = volume_options_apply(&attach->options, target, &attach->config, &error);

	if (code == 0)
		code = volume_options_socket(&attach->options, &attach->config, &error);
	if (code)
		return report_error(program, &error);
	/* A device that is not there is a mistake, attached or not. */
	if (attach->options.fabric)
		code = fabric_choose(program, attach->options.fabric);
	if (code || show_attached(attach, &code))
		return code;
	code = fabric_choose(program, attach->options.fabric);
	if (code)
		return code;
	code = start(attach, &error);
	if (code && code != EXIT_BUSY)
		return report_error(program, &error);
	if (code == EXIT_OK ? show_started(attach, &code) : show_attached(attach, &code))
		return code;
	if (code == EXIT_OK)
		error_set(&error, EXIT_FAILED, NULL,
			  "the volume process ended right after its start");
	return report_error(program, &error);
}

/* The volume is attached, whether or not it is again at the next boot. */
static int persist(const struct attach *attach, const char *target, char **words, unsigned n)
{
	struct error error = {0};
	int code = persist_volume(attach->config.name, target, words, n, &error);

	return code ? report_error(program, &error) : EXIT_OK;
}

/* Options that would be ignored, or that several volumes cannot share, are refused. */
static int check_usage(const struct attach *attach, const char *target)
{
	const struct volume_options *o = &attach->options;

	if (!attach->is_all && attach->directory)
		return fail_with(program, EXIT_USAGE, NULL, "--from needs --all");
	if (!attach->is_all && !target)
		return fail_with(program, EXIT_USAGE, "see rblk attach --help",
				 "missing argument, expected NQN@ADDRESS[:PORT]");
	if (attach->is_all && target && attach->directory)
		return fail_with(program, EXIT_USAGE, NULL,
				 "an address and --from exclude each other");
	if (attach->is_all &&
	    (o->name || o->socket_path || o->metrics || volume_options_given(o, "ns")))
		return fail_with(
			program, EXIT_USAGE, "attach that volume alone",
			"--name, --ns, --socket and --metrics are for one volume, not for --all");
	return EXIT_OK;
}

/* The identity goes to the questions, the words to each volume. */
static int run_all(const struct attach *attach, const char *address, char **words, unsigned n)
{
	const struct volume_options *o = &attach->options;
	const struct attach_all all = {
		.address = address,
		.directory = attach->directory ?: "/etc/nvme",
		.hostnqn = volume_options_given(o, "hostnqn"),
		.hostid = volume_options_given(o, "hostid"),
		.host_address = volume_options_given(o, "host-address"),
		.secret_file = volume_options_given(o, "dhchap-secret-file"),
		.ctrl_secret_file = volume_options_given(o, "dhchap-ctrl-secret-file"),
		.is_json = attach->output == OUTPUT_JSON,
		.words = words,
		.n_words = n,
	};

	return fabric_select(program, attach->options.fabric, arguments) ?: attach_all(&all);
}

int attach_main(int argc, char **argv)
{
	struct attach attach = {.argc = argc - 1};
	struct arg table[VOLUME_OPTIONS_MAX] = {
		{"output", 'o', ARG_CHOICE, &attach.output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{"all", 0, ARG_FLAG, &attach.is_all, NULL,
		 "each namespace that the target offers, or the targets of nvme-cli's files"},
		{"from", 0, ARG_STRING, &attach.directory, "DIR",
		 "with --all: directory of discovery.conf and config.json (default: /etc/nvme)"},
		{"persist", 0, ARG_FLAG, &attach.is_persistent, NULL,
		 "attach it at boot, too, by a systemd unit"},
	};
	const struct args_usage usage = {program, "NQN@ADDRESS[:PORT], or --all [ADDRESS[:PORT]]",
					 "Attach a namespace and print its device or URI.", 0, 1};
	const char *target;
	unsigned n_words;
	int at, code;

	attach.args = arguments + 2;
	volume_options_init(&attach.options, BRIDGE_FRONTEND_AUTO);
	volume_options_table(&attach.options, table, 4);
	code = args_parse(&usage, table, argc, argv, &at);
	if (code >= 0)
		return code;
	target = at < argc ? argv[at] : NULL;
	n_words = (unsigned)at - 1;
	code = check_usage(&attach, target) ?: fd_limit_raise(program);
	if (code)
		return code;
	if (attach.is_all)
		return run_all(&attach, target, argv + 1, n_words);
	code = run(&attach, target);
	return code == EXIT_OK && attach.is_persistent ? persist(&attach, target, argv + 1, n_words)
						       : code;
}
