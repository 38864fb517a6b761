/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See capture.h. All entries are kept until the end, because their order is known only then: a
 * command is reported with its response. SIGINT and SIGTERM end a capture early; what it has is
 * written.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/output.h"
#include "base/units.h"
#include "tools/shared/answer.h"
#include "tools/shared/capture.h"
#include "tools/shared/capture_log.h"

enum {
	COUNT_MAX = 1000000,
	LAST_READS = 64, /* of what the daemon had when the time was over; it holds no more */
};
#define TIME_DEFAULT_NS (5 * NSEC_PER_SEC)
#define INTERVAL_NS	(50 * NSEC_PER_MSEC)

struct run {
	const char *program;
	const struct capture_options *options;
	int (*call)(void *context, struct json_object *params, struct json_object **ret_result);
	void *context;
	uint64_t number, n_dropped, took_ns;
	struct capture_log log;
	FILE *file;
	bool is_new; /* the file did not exist before */
};

static volatile sig_atomic_t is_interrupted;

static void on_signal(int signal)
{
	is_interrupted = 1;
}

int capture_check(const char *program, struct capture_options *options)
{
	if (!options->file)
		return fail_with(program, EXIT_USAGE, "-w FILE, or -w - for a pipe to tshark",
				 "no file to write to");
	if (!strcmp(options->file, "-") && options->output == OUTPUT_JSON)
		return fail_with(program, EXIT_USAGE, NULL,
				 "-w - and -o json both write to standard output");
	if (!strcmp(options->file, "-") && isatty(STDOUT_FILENO))
		return fail_with(program, EXIT_USAGE, "-w FILE, or a pipe to tshark -r -",
				 "a capture is not for a terminal");
	options->time_ns = options->time_ns ?: TIME_DEFAULT_NS;
	options->count = options->count ?: COUNT_MAX;
	return EXIT_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

static int fail_to_write(const struct run *run, int error)
{
	return fail_with(run->program, EXIT_FAILED, NULL, "cannot write %s: %s", run->options->file,
			 strerror(error));
}

/* Before anything is captured, so that a wrong name costs no time. The old content stays until
 * there is a new one. */
static int open_file(struct run *run)
{
	const char *path = run->options->file;
	int fd;

	if (!strcmp(path, "-")) {
		run->file = stdout;
		return EXIT_OK;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	run->is_new = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_to_write(run, errno);
	run->file = fdopen(fd, "w");
	if (!run->file) {
		close(fd);
		return fail_to_write(run, ENOMEM);
	}
	return EXIT_OK;
}

/* A failed command leaves no file behind that was not there. */
static void discard_file(struct run *run)
{
	if (!run->file || run->file == stdout)
		return;
	fclose(run->file);
	if (run->is_new)
		unlink(run->options->file);
}

static int write_file(struct run *run, const char *interface)
{
	struct stat st;
	int r = 0;

	if (run->file != stdout && !fstat(fileno(run->file), &st) && S_ISREG(st.st_mode))
		r = ftruncate(fileno(run->file), 0) < 0 ? -errno : 0;
	if (r == 0)
		r = capture_log_write(&run->log, run->file, interface);
	errno = 0;
	if (r == 0 && (fflush(run->file) || ferror(run->file)))
		r = -(errno ?: EIO);
	return r < 0 ? fail_to_write(run, -r) : EXIT_OK;
}

/* ---- capturing ------------------------------------------------------------------------------ */

static int call(struct run *run, const char *action, struct json_object **ret_result)
{
	struct json_object *params = json_object_new_object();

	json_object_object_add(params, "action", json_object_new_string(action));
	if (run->number)
		json_object_object_add(params, "capture", json_object_new_uint64(run->number));
	return run->call(run->context, params, ret_result);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: it is not one. */
static bool read_entry(const char *hex, struct capture_entry *ret_entry)
{
	uint8_t *bytes = (uint8_t *)ret_entry;

	for (size_t i = 0; i < sizeof(*ret_entry); i++) {
		int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int add_entries(struct run *run, const char *hex)
{
	struct capture_entry entry;
	size_t n = strlen(hex) / (2 * sizeof(entry));

	if (strlen(hex) != 2 * n * sizeof(entry))
		return fail_with(run->program, EXIT_FAILED, "use tools and daemons of one version",
				 "the capture has another format");
	for (size_t i = 0; i < n; i++)
		if (!read_entry(hex + 2 * i * sizeof(entry), &entry) ||
		    capture_log_add(&run->log, &entry, run->options->count) < 0)
			return fail_with(run->program, EXIT_FAILED, NULL,
					 "the capture cannot be read");
	return EXIT_OK;
}

static int read_some(struct run *run, bool *ret_more)
{
	struct json_object *answer;
	int code = call(run, "read", &answer);

	if (code != EXIT_OK)
		return code;
	code = add_entries(run, answer_string(answer, "entries"));
	*ret_more = answer_bool(answer, "more");
	json_object_put(answer);
	return code;
}

static bool is_over(const struct run *run, uint64_t until)
{
	return is_interrupted || run->log.n >= run->options->count || clock_ns() >= until;
}

static int read_all(struct run *run)
{
	uint64_t start = clock_ns(), until = start + run->options->time_ns;
	int code = EXIT_OK;
	bool more = false;

	while (code == EXIT_OK && !is_over(run, until)) {
		if (!more)
			clock_sleep_ns(MIN(INTERVAL_NS, run->options->time_ns));
		code = read_some(run, &more);
	}
	run->took_ns = clock_ns() - start;
	for (unsigned i = 0; code == EXIT_OK && more && i < LAST_READS; i++)
		code = run->log.n < run->options->count ? read_some(run, &more) : EXIT_OK;
	return code;
}

static int capture(struct run *run)
{
	struct json_object *answer;
	int code = call(run, "start", &answer), stop_code;

	if (code != EXIT_OK)
		return code;
	run->number = answer_number(answer, "capture");
	json_object_put(answer);
	code = read_all(run);
	if (code != EXIT_OK)
		return code; /* said; the daemon ends the capture by itself */
	stop_code = call(run, "stop", &answer);
	if (stop_code != EXIT_OK)
		return stop_code;
	run->n_dropped = answer_number(answer, "dropped");
	json_object_put(answer);
	return EXIT_OK;
}

/* ---- out ------------------------------------------------------------------------------------ */

static int show_json(const struct run *run)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "schema", json_object_new_int(1));
	json_object_object_add(o, "file", json_object_new_string(run->options->file));
	json_object_object_add(o, "commands", json_object_new_uint64(run->log.n));
	json_object_object_add(o, "admin_commands", json_object_new_uint64(run->log.n_admin));
	json_object_object_add(o, "dropped", json_object_new_uint64(run->n_dropped));
	json_object_object_add(o, "connections", json_object_new_uint64(run->log.n_streams));
	json_object_object_add(o, "took_ms", json_object_new_uint64(run->took_ns / NSEC_PER_MSEC));
	output_json(o);
	json_object_put(o);
	return EXIT_OK;
}

static int show(const struct run *run)
{
	FILE *out = run->file == stdout ? stderr : stdout;
	unsigned port = capture_log_other_port(&run->log);
	char took[UNITS_MAX];

	if (run->options->output == OUTPUT_JSON)
		return show_json(run);
	fprintf(out, "captured %zu commands of %zu connections in %s\n", run->log.n,
		run->log.n_streams, units_format_duration(took, run->took_ns));
	if (run->n_dropped)
		fprintf(out, "%" PRIu64 " more came too fast and are left out\n", run->n_dropped);
	if (port)
		fprintf(out, "tshark and wireshark: -o nvme-rdma.subsystem_ports:%u\n", port);
	return EXIT_OK;
}

int capture_run(const char *program, const struct capture_options *options, const char *interface,
		int (*call_daemon)(void *context, struct json_object *params,
				   struct json_object **ret_result),
		void *context)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct run run = {
		.program = program, .options = options, .call = call_daemon, .context = context};
	int code = open_file(&run);

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (code == EXIT_OK)
		code = capture(&run);
	if (code == EXIT_OK)
		code = write_file(&run, interface);
	if (code == EXIT_OK)
		code = show(&run);
	else
		discard_file(&run);
	if (code == EXIT_OK && run.file != stdout && fclose(run.file))
		code = fail_to_write(&run, errno);
	capture_log_release(&run.log);
	return code;
}
