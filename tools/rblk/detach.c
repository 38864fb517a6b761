/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblk detach: refuses while the volume is in use, flushes everything written, makes the volume
 * process stop, and waits for its end.
 *
 * The flush of the block device is done here and not in the volume process: it waits for I/O, which
 * the volume process itself has to do.
 *
 * --all does this for one volume after the other. One that cannot be detached is said at once, and
 * the others are detached all the same.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/output.h"
#include "base/rpc_client.h"
#include "tools/rblk/busy.h"
#include "tools/rblk/commands.h"
#include "tools/rblk/left.h"
#include "tools/rblk/report.h"
#include "tools/rblk/run_dir.h"
#include "tools/rblk/volumes.h"

static const char program[] = "rblk detach";

enum {
	CALL_TIMEOUT_MS = 5000,
	LEAVING_MS = 1000, /* for clients that are closing their connection */
	AGAIN_MS = 20,
};

struct detach {
	bool is_forced, is_all;
	uint64_t wait_ns, nsid;
	unsigned output;
};

/* 0 when the process has ended. */
static int wait_for_end(int pidfd, uint64_t wait_ns)
{
	struct pollfd pfd = {.fd = pidfd, .events = POLLIN};
	uint64_t deadline = clock_ns() + wait_ns;
	int r;

	do {
		uint64_t now = clock_ns();

		r = poll(&pfd, 1, now < deadline ? (int)((deadline - now) / NSEC_PER_MSEC) : 0);
	} while (r < 0 && errno == EINTR);
	return r > 0 ? 0 : -ETIMEDOUT;
}

/* -EREMOTEIO: the process answers, and refuses. Its own words are better than any of ours. */
static int fail_call(const char *name, int r, const struct error *said, struct error *error)
{
	if (r == -EREMOTEIO)
		error_set(error, said->code, said->hint, "%s", said->message);
	else
		error_set(error, EXIT_FAILED, "--force ends a process that does not answer",
			  "the volume process of %s does not answer: %s", name, strerror(-r));
	return (int)error->code;
}

/* An empty log file is of no use: it is removed with the volume. */
static void remove_empty_log(const char *name)
{
	struct error ignored;
	char path[PATH_MAX];
	struct stat st;

	if (run_dir_path(path, name, "log", &ignored) == 0 && stat(path, &st) == 0 &&
	    st.st_size == 0)
		unlink(path);
}

static int call_detach(const struct detach *detach, const char *path, struct error *ret_said)
{
	struct json_object *params = json_object_new_object(), *result = NULL;
	int r;

	json_object_object_add(params, "force", json_object_new_boolean(detach->is_forced));
	r = rpc_call(path, "detach", params, CALL_TIMEOUT_MS, &result, ret_said);
	json_object_put(params);
	json_object_put(result);
	return r;
}

/* A client that closed its socket just now is still there for the process, until it reads that. So
 * a script that detaches after its last client is not refused. */
static int ask_to_end(const struct detach *detach, const char *path, struct error *ret_said)
{
	int r = call_detach(detach, path, ret_said);
	uint64_t deadline = clock_ns() + LEAVING_MS * NSEC_PER_MSEC;

	while (r == -EREMOTEIO && ret_said->code == EXIT_BUSY && clock_ns() < deadline) {
		clock_sleep_ns(AGAIN_MS * NSEC_PER_MSEC);
		*ret_said = (struct error){0};
		r = call_detach(detach, path, ret_said);
	}
	return r;
}

/* The pidfd was opened before the call, so the wait is for this process and no other that gets its
 * number. A process that does not even answer is killed, if the user has forced it. */
static int end_process(const struct detach *detach, const char *name, int pidfd,
		       struct error *error)
{
	struct error said = {0};
	char path[PATH_MAX];
	int r = run_dir_path(path, name, "sock", error);

	if (r == 0)
		r = ask_to_end(detach, path, &said);
	if (r < 0 && !(detach->is_forced && r != -EREMOTEIO))
		return fail_call(name, r, &said, error);
	if (wait_for_end(pidfd, detach->wait_ns) == 0)
		return 0;
	if (!detach->is_forced) {
		error_set(error, EXIT_UNREACHABLE, "see `rblk status`; --force ends it at once",
			  "%s is still being flushed", name);
		return EXIT_UNREACHABLE;
	}
	syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	return wait_for_end(pidfd, detach->wait_ns) == 0 ? 0 : EXIT_FAILED;
}

/* I/O that waits for the target, or writes that it has not flushed. Those of a block device are
 * also in the kernel's cache, which is not seen here; a process of an older version does not say.
 */
static bool needs_target(struct json_object *status)
{
	struct json_object *unflushed = NULL;

	if (!volume_holds_io(status))
		return false;
	return !json_object_object_get_ex(status, "unflushed", &unflushed) ||
	       json_object_get_boolean(unflushed) || *json_text(status, "device") ||
	       json_number(status, "held") || json_number(status, "in_flight");
}

/* First what may refuse, while nothing has happened yet: the target is away, the device is in use.
 * Only then is the process asked to end. */
static int detach_volume(const struct detach *detach, struct json_object *status,
			 struct error *error)
{
	const char *device = json_text(status, "device");
	_autoclose_ int pidfd = -1;
	int code;

	if (needs_target(status) && !detach->is_forced) {
		error_set(error, EXIT_UNREACHABLE,
			  "wait for the target; --force detaches without the flush",
			  "%s cannot be flushed: the target is away", json_text(status, "name"));
		return EXIT_UNREACHABLE;
	}
	if (*device && !detach->is_forced) {
		code = busy_check_and_sync(device, error);
		if (code)
			return code;
	}
	pidfd = (int)syscall(SYS_pidfd_open, (pid_t)json_number(status, "pid"), 0);
	if (pidfd < 0) {
		error_set(error, EXIT_FAILED, NULL, "cannot watch the volume process of %s: %s",
			  json_text(status, "name"), strerror(errno));
		return EXIT_FAILED;
	}
	code = end_process(detach, json_text(status, "name"), pidfd, error);
	if (code == 0)
		remove_empty_log(json_text(status, "name"));
	return code;
}

/* No process of that name; but its device may be there. */
static int detach_left(const struct detach *detach, const char *what, struct left_device *left,
		       struct error *error)
{
	if (!left_find(what, left))
		return (int)error->code;
	if (detach->is_forced)
		return left_end(left, error);
	error_set(error, EXIT_BUSY,
		  "attach it again to go on; --force gives up what is not written yet",
		  "the process of volume '%s' is gone, /dev/nbd%u holds its I/O", left->volume,
		  left->index);
	return EXIT_BUSY;
}

/* After the end of the process: when the command returns, the device or socket is free again. */
static int show(const struct detach *detach, const char *name)
{
	struct json_object *o;

	if (detach->output == OUTPUT_TABLE) {
		printf("detached %s\n", name);
		return EXIT_OK;
	}
	o = json_object_new_object();
	json_object_object_add(o, "schema", json_object_new_int(1));
	json_object_object_add(o, "detached", json_object_new_string(name));
	return report_json(o);
}

/* With --ns only a volume that answers can be meant: a device that was left has no NSID. */
static int run(const struct detach *detach, const char *what)
{
	struct error error = {0};
	struct json_object *status = NULL;
	struct left_device left;
	struct volumes volumes;
	int code = volumes_read(&volumes, &error);

	if (code == 0) {
		status = volumes_find(&volumes, what, (uint32_t)detach->nsid, &error);
		code = status	      ? detach_volume(detach, status, &error)
		       : detach->nsid ? (int)error.code
				      : detach_left(detach, what, &left, &error);
	}
	code = code ? report_error(program, &error)
		    : show(detach, status ? json_text(status, "name") : left.volume);
	volumes_release(&volumes);
	return code;
}

/* ---- all ---- */

static struct json_object *text_of(const char *text)
{
	return json_object_new_string(text);
}

/* Keeps what became of one volume. Texts are printed at once: the others may take long. */
static void note_end(const struct detach *detach, struct json_object *answer, const char *name,
		     const struct error *error)
{
	struct json_object *o = json_object_new_object(), *list = NULL;

	json_object_object_get_ex(answer, error->code ? "failures" : "volumes", &list);
	json_object_object_add(o, error->code ? "volume" : "name", text_of(name));
	if (error->code) {
		json_object_object_add(o, "code", json_object_new_int((int)error->code));
		json_object_object_add(o, "message", text_of(error->message));
		json_object_object_add(o, "hint", text_of(error->hint));
	}
	json_object_array_add(list, o);
	if (detach->output == OUTPUT_JSON)
		return;
	if (error->code)
		fprintf(stderr, "%s: %s: %s\n", program, name, error->message);
	else
		printf("detached %s\n", name);
}

/* In the order of names. Adds to the lists of the answer; *ret_code: of the last failure, else as
 * it was. A block device without a process is refused, or given up with --force, as for one. */
static void detach_each(const struct detach *detach, const struct volumes *volumes,
			struct json_object *answer, int *ret_code)
{
	for (unsigned i = 0; i < volumes->n; i++) {
		struct json_object *status = volumes_get(volumes, i);
		const char *name = json_text(status, "name");
		struct error error = {0};
		struct left_device left;
		int code = !strcmp(json_text(status, "state"), "left-behind")
				   ? detach_left(detach, name, &left, &error)
				   : detach_volume(detach, status, &error);

		note_end(detach, answer, name, &error);
		*ret_code = code ?: *ret_code;
	}
}

/* The length of one of the answer's lists. */
static size_t count(struct json_object *answer, const char *key)
{
	struct json_object *list = NULL;

	json_object_object_get_ex(answer, key, &list);
	return json_object_array_length(list);
}

/* code: of the last failure, which is that of the whole if nothing was detached. */
static int show_all(const struct detach *detach, struct json_object *answer, int code)
{
	size_t n_detached = count(answer, "volumes"), n_failed = count(answer, "failures");

	if (n_detached && n_failed)
		code = EXIT_PARTIAL;
	if (detach->output == OUTPUT_JSON)
		report_json(json_object_get(answer));
	else if (n_failed)
		fail_with(program, (enum exit_code)code, NULL, "%zu detached, %zu failed",
			  n_detached, n_failed);
	else if (!n_detached)
		puts("no volume is attached");
	return code;
}

/* A volume that is attached meanwhile is not among them. */
static int run_all(const struct detach *detach)
{
	struct json_object *answer = json_object_new_object();
	struct error error = {0};
	struct volumes volumes;
	int code = volumes_read(&volumes, &error);

	json_object_object_add(answer, "schema", json_object_new_int(1));
	json_object_object_add(answer, "volumes", json_object_new_array());
	json_object_object_add(answer, "failures", json_object_new_array());
	if (code == 0) {
		volumes_add_left(&volumes);
		detach_each(detach, &volumes, answer, &code);
		code = show_all(detach, answer, code);
	} else {
		code = report_error(program, &error);
	}
	volumes_release(&volumes);
	json_object_put(answer);
	return code;
}

/* ---- command line ---- */

/* A volume beside --all would be taken for a restriction. */
static int check_usage(const struct detach *detach, const char *what)
{
	if (!detach->is_all && !what)
		return fail_with(program, EXIT_USAGE, "see rblk detach --help",
				 "missing argument, expected NAME|DEVICE|NQN@ADDRESS[:PORT]");
	if (detach->is_all && (what || detach->nsid))
		return fail_with(program, EXIT_USAGE, NULL,
				 "--all and a volume (or its --ns) exclude each other");
	return EXIT_OK;
}

int detach_main(int argc, char **argv)
{
	struct detach detach = {.wait_ns = 30 * NSEC_PER_SEC};
	const struct arg table[] = {
		{"force", 'f', ARG_FLAG, &detach.is_forced, NULL,
		 "even while it is used, and without waiting for ever; may lose data"},
		{"all", 0, ARG_FLAG, &detach.is_all, NULL, "every volume of this host"},
		{"ns", 'n', ARG_UINT, &detach.nsid, "N",
		 "namespace id, where several of an NQN are attached", 1, UINT32_MAX - 1, NULL},
		{"wait", 'w', ARG_DURATION, &detach.wait_ns, "TIME",
		 "for the last flush (default: 30s)", 0, 3600 * NSEC_PER_SEC},
		{"output", 'o', ARG_CHOICE, &detach.output, OUTPUT_CHOICES, OUTPUT_HELP, 0, 0,
		 output_names},
		{0},
	};
	const struct args_usage usage = {program, "NAME|DEVICE|NQN@ADDRESS[:PORT], or --all",
					 "Flush and detach a volume, or all.", 0, 1};
	int at, code = args_parse(&usage, table, argc, argv, &at);
	const char *what;

	if (code >= 0)
		return code;
	what = at < argc ? argv[at] : NULL;
	code = check_usage(&detach, what);
	if (code)
		return code;
	return detach.is_all ? run_all(&detach) : run(&detach, what);
}
