/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkd: the target daemon. Its command line and configuration, and the fabric, which may start the
 * program again under the software provider; daemon.c has the rest. Main thread, which becomes
 * control.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/args.h"
#include "base/bits.h"
#include "base/cleanup.h"
#include "base/conf_read.h"
#include "base/fatal.h"
#include "base/fd_limit.h"
#include "base/output.h"
#include "target/operations/check_mode.h"
#include "target/operations/daemon.h"
#include "target/store/backends.h"
#include "transport/fabric.h"

#define DEFAULT_CONFIG "/etc/rblk/target.yaml"

enum {
	STDIN_MAX = 16 * 1024 * 1024,
};

static const char *const log_levels[] = {"error", "warning", "info", "debug", NULL};
static const char *const log_times[] = {
	[LOG_TIME_AUTO] = "auto", [LOG_TIME_ALWAYS] = "always", [LOG_TIME_NEVER] = "never", NULL};

static struct {
	const char *config;
	bool is_check;
	const char *user; /* of --check */
	const char *fabric;
	const char *control_socket;
	unsigned log_level;
	unsigned log_time;
} args = {.config = DEFAULT_CONFIG, .log_level = ARRAY_LEN(log_levels)};

static const struct arg arg_table[] = {
	{.name = "config",
	 .letter = 'c',
	 .type = ARG_STRING,
	 .value = &args.config,
	 .placeholder = "FILE",
	 .help = "configuration, by default " DEFAULT_CONFIG},
	{.name = "check",
	 .type = ARG_FLAG,
	 .value = &args.is_check,
	 .help = "check the configuration and exit"},
	{.name = "user",
	 .type = ARG_STRING,
	 .value = &args.user,
	 .placeholder = "USER",
	 .help = "with --check: as this user (root's default: that of the service)"},
	{.name = "fabric",
	 .type = ARG_STRING,
	 .value = &args.fabric,
	 .placeholder = "auto|soft|soft-roce|DEVICE",
	 .help = "which RDMA device to use"},
	{.name = "control-socket",
	 .type = ARG_STRING,
	 .value = &args.control_socket,
	 .placeholder = "PATH",
	 .help = "where rblkctl finds this daemon"},
	{.name = "log-level",
	 .type = ARG_CHOICE,
	 .value = &args.log_level,
	 .placeholder = "LEVEL",
	 .help = "error, warning, info or debug",
	 .choices = log_levels},
	{.name = "log-timestamps",
	 .type = ARG_CHOICE,
	 .value = &args.log_time,
	 .placeholder = "auto|always|never",
	 .help = "begin log records with the time; auto: unless the journal does",
	 .choices = log_times},
	{0},
};

static const char *wanted_fabric(const struct target_config *config)
{
	return args.fabric ? args.fabric : config->fabric;
}

/* Bounded: the parser rejects oversized input. */
static int copy_input(int from, int to)
{
	char buf[65536];
	ssize_t n = 0;

	for (size_t total = 0; total < STDIN_MAX; total += (size_t)n) {
		n = read(from, buf, sizeof(buf));
		if (n <= 0)
			break;
		if (write(to, buf, (size_t)n) != n)
			return -EIO;
	}
	return n < 0 ? -errno : 0;
}

/*
 * fabric_select may start the program again, which reads the configuration again. A pipe can be
 * read only once, so its contents go to memory, which replaces standard input.
 */
static enum exit_code keep_stdin(void)
{
	_autoclose_ int fd = memfd_create("rblkd-config", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : copy_input(STDIN_FILENO, fd);

	if (r == 0 && (lseek(fd, 0, SEEK_SET) < 0 || dup2(fd, STDIN_FILENO) < 0))
		r = -errno;
	if (r == 0)
		return EXIT_OK;
	log_errno(r, "cannot read the configuration from standard input");
	return EXIT_CONFIG;
}

/* Errors in the text are logged already, with lines. */
static void hint_at_examples(const char *path)
{
	struct stat st;

	if (strcmp(path, "-") != 0 && (stat(path, &st) < 0 || !S_ISREG(st.st_mode)))
		fprintf(stderr,
			"rblkd: hint: name a file with --config; examples, of which ram.yaml runs as it is, are in /usr/share/doc/rblk-target/examples, or docs/examples of the source\n");
}

static enum exit_code check_only(void)
{
	const struct check_mode mode = {
		.path = args.config,
		.fabric = args.fabric,
		.user = args.user,
		.is_default = !strcmp(args.config, DEFAULT_CONFIG),
	};
	enum exit_code code = check_mode_run(&mode);

	if (code == EXIT_CONFIG)
		hint_at_examples(args.config);
	return code;
}

static enum exit_code serve(struct daemon *d, char **argv)
{
	const struct daemon_options options = {
		.argv = argv,
		.config_path = args.config,
		.control_socket = args.control_socket,
		.is_log_level_given = args.log_level < ARRAY_LEN(log_levels),
	};
	enum exit_code code = daemon_start(d, &options);

	if (code == EXIT_OK)
		loop_run(&d->target.loop);
	return daemon_end(d, code);
}

static enum exit_code run(char **argv)
{
	static struct daemon d; /* large */
	bool is_stdin = !strcmp(args.config, "-");
	enum exit_code code = is_stdin ? keep_stdin() : EXIT_OK;

	if (code != EXIT_OK)
		return code;
	if (config_read(args.config, &d.config, stderr, &d.conf) < 0) {
		hint_at_examples(args.config);
		code = EXIT_CONFIG;
	} else {
		log_set_level(args.log_level < ARRAY_LEN(log_levels) ? args.log_level
								     : d.config.log_level);
		if (is_stdin)
			lseek(STDIN_FILENO, 0, SEEK_SET);
		code = (enum exit_code)fabric_select("rblkd", wanted_fabric(&d.config), argv);
		if (code == EXIT_OK)
			code = serve(&d, argv);
	}
	config_release(&d.config);
	conf_free(d.conf);
	return code;
}

int main(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkd",
		.positional = "",
		.summary = "Exports files, block devices and memory as NVMe over RDMA.",
	};
	int positional;
	int r = args_parse(&usage, arg_table, argc, argv, &positional);

	if (r >= 0)
		return r;
	if (args.user && !args.is_check)
		return fail_with("rblkd", EXIT_USAGE, NULL, "--user needs --check");
	log_init("rblkd", LOG_INFO);
	fatal_init();
	if (!args.is_check)
		log_show_time(args.log_time);
	prctl(PR_SET_NAME, "rblkd"); /* after a second start the name would be "exe" */
	r = fd_limit_raise("rblkd");
	if (r != EXIT_OK)
		return r;
	r = args.is_check ? check_only() : run(argv);
	if (r == EXIT_OK && !args.is_check)
		log_info("stopped");
	if (!backends_end())
		_exit(r);
	return r;
}
