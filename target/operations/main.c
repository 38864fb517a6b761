/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkd: the target daemon. Start, signals, stop. Control thread.
 *
 * Start: configuration, fabric (which may start the program again under the software provider),
 * backends and snapshot, pollers, control socket, and only then portals: a host that connects finds
 * everything ready (R11: a host that is refused a moment too early never retries).
 *
 * Change (SIGHUP): the file is read again and applied, or rejected; see apply.c.
 *
 * Stop (SIGTERM, SIGINT): portals close, each connection finishes its commands and is disconnected,
 * at the latest after 5 s. With the last freed connection the stores are synced, and then the loop
 * ends. A store that cannot be synced makes the exit status 1. A second signal ends the process at
 * once.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_SYSTEMD
#	include <systemd/sd-daemon.h>
#endif

#include "base/args.h"
#include "base/bits.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/fd_limit.h"
#include "base/random.h"
#include "base/ticks.h"
#include "target/operations/change/apply.h"
#include "target/association/controller.h"
#include "target/operations/change/drain.h"
#include "target/association/defect.h"
#include "target/export/state_file.h"
#include "target/export/health/health.h"
#include "target/export/last_sync.h"
#include "target/engine/capsules.h"
#include "target/engine/poller.h"
#include "target/association/portal.h"
#include "target/engine/queue.h"
#include "target/operations/check_mode.h"
#include "target/operations/life.h"
#include "target/operations/stats/metrics.h"
#include "transport/fabric.h"

#define DEFAULT_CONFIG "/etc/rblk/target.yaml"

enum {
	STDIN_MAX = 16 * 1024 * 1024,
	APPLY_AGAIN_MS = 200,
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

static void notify(const char *state)
{
#ifdef HAVE_SYSTEMD
	sd_notify(0, state);
#endif
}

/* ---- stop --------------------------------------------------------------------------------- */

struct daemon {
	struct target target;
	struct target_config config;
	struct conf *conf;
	struct state_directory *state; /* owned; NULL: none */
	struct loop_fd signals;
	struct loop_timer finish_timer;
	struct loop_timer apply_timer; /* while an apply waits for stores that open */
	struct last_sync last_sync;
};

static void on_synced(struct last_sync *sync)
{
	loop_stop(sync->loop);
}

/* systemd otherwise kills the unit after TimeoutStopSec; a disk may need longer. */
static void ask_for_time(void)
{
	notify("EXTEND_TIMEOUT_USEC=30000000");
}

static void check_stop(struct target *target)
{
	struct daemon *d = container_of(target, struct daemon, target);

	drain_continue(target);
	if (!target->is_stopping || !defect_has_all_stranded(target) || target->n_drops)
		return;
	loop_timer_stop(&d->finish_timer);
	if (!retire_is_synced(&target->retire))
		return;
	last_sync_start(&d->last_sync, &target->loop, atomic_load(&target->snapshot));
}

static void on_finish_timeout(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, finish_timer);

	log_warn("stopping: %u connections do not finish their commands; disconnecting them",
		 d->target.n_connections);
	list_for_each_safe (node, &d->target.connections)
		connection_kill(list_entry(node, struct connection, node), "rblkd is stopping");
}

static void stop(struct daemon *d)
{
	struct target *target = &d->target;

	if (target->is_stopping) {
		log_warn("stopping at once");
		_exit(EXIT_FAILED);
	}
	notify("STOPPING=1");
	log_info("stopping: %u connections to finish", target->n_connections);
	target->is_stopping = true;
	target_close(target);
	d->finish_timer.on_expiry = on_finish_timeout;
	loop_timer_start(&target->loop, &d->finish_timer, DRAIN_S * NSEC_PER_SEC);
	check_stop(target);
}

/* SIGHUP */

static void apply(struct daemon *d);

static void on_apply_timer(struct loop_timer *timer)
{
	apply(container_of(timer, struct daemon, apply_timer));
}

static void apply(struct daemon *d)
{
	loop_timer_stop(&d->apply_timer);
	d->apply_timer.on_expiry = on_apply_timer;
	if (!apply_and_log(&d->target))
		loop_timer_start(&d->target.loop, &d->apply_timer, APPLY_AGAIN_MS * NSEC_PER_MSEC);
}

static void on_signal(struct loop_fd *lfd, uint32_t events)
{
	struct daemon *d = container_of(lfd, struct daemon, signals);
	struct signalfd_siginfo info;

	if (read(lfd->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP)
		apply(d);
	else
		stop(d);
}

/* ---- start -------------------------------------------------------------------------------- */

static int open_signals(struct daemon *d)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL); /* before threads start: they inherit it */
	signal(SIGPIPE, SIG_IGN);
	d->signals = (struct loop_fd){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
				      .events = EPOLLIN,
				      .on_event = on_signal};
	return d->signals.fd < 0 ? -errno : loop_fd_add(&d->target.loop, &d->signals);
}

static const char *wanted_fabric(const struct target_config *config)
{
	return args.fabric ? args.fabric : config->fabric;
}

/* In a handler of a fatal signal: fatal.h. */
static void dump_capsules(const void *target, int fd)
{
	static const char title[] = "the last capsules of each queue, oldest first:\n";

	if (write(fd, title, sizeof(title) - 1) > 0)
		capsules_dump(target, fd);
}

/* Ids begin anywhere: a host that asks about a controller of the rblkd before this one must not
 * meet that of another host. Without randomness they begin with the first. */
static void scatter_ids(struct target *target)
{
	const struct config_controller_ids *ids = &target->config->controller_ids;
	uint16_t n;

	if (random_bytes(&n, sizeof(n)) == 0)
		target->last_cntlid = (uint16_t)(ids->min + n % (ids->max - ids->min + 1));
}

static int init_target(struct daemon *d)
{
	const struct target_parts parts = {
		.config = &d->config,
		.check_stop = check_stop,
		.config_path = args.config,
		.control_socket = args.control_socket,
		.is_log_level_given = args.log_level < ARRAY_LEN(log_levels),
	};
	int r;

	d->last_sync.done = on_synced;
	d->last_sync.on_progress = ask_for_time;
	ticks_init();
	r = target_init(&d->target, &parts);
	d->target.retire.on_progress = ask_for_time;
	if (r == 0) {
		scatter_ids(&d->target);
		fatal_set_dump(dump_capsules, &d->target);
	}
	if (r == 0)
		r = open_signals(d);
	return r < 0 ? log_errno(r, "cannot start the control thread") : 0;
}

/* The state directory is that of the configuration, or systemd's. */
static bool open_state(struct daemon *d)
{
	const char *path = d->config.state_directory ? d->config.state_directory
						     : getenv("STATE_DIRECTORY");
	struct error error, report;

	if (!path || *path != '/' || strchr(path, ':')) /* systemd may give several */
		return true;
	d->state = state_directory_open(path, &error);
	if (d->state)
		return true;
	error_set(&report, error.code, NULL, "state_directory: %s", error.message);
	conf_report(d->conf, d->config.state_mark, &report);
	return false;
}

static enum exit_code exit_code_of_config(const struct daemon *d)
{
	return conf_is_busy(d->conf) ? EXIT_BUSY : EXIT_CONFIG;
}

static int serve(struct target *target)
{
	int r = pollers_start(target);

	if (r == 0)
		r = control_start(target);
	if (r == 0)
		r = metrics_start(target);
	if (r < 0)
		return r;
	health_begin(target->runtime.health, &target->loop, atomic_load(&target->snapshot),
		     &target->controllers);
	return target_listen(target);
}

/* The portals listen last, when everything is built. */
static enum exit_code start(struct daemon *d)
{
	struct target *target = &d->target;
	int r;

	if (init_target(d) < 0)
		return EXIT_FAILED;
	if (!open_state(d) || target_export(target, d->state, d->conf) < 0)
		return exit_code_of_config(d);
	r = serve(target);
	if (r < 0)
		return error_code_of(r);
	log_info("ready, portals %u/%u listening", portals_n_listening(target),
		 portals_n_used(target));
	notify("READY=1");
	return EXIT_OK;
}

/* In reverse order; accepts a daemon that was half started. */
static void end(struct daemon *d)
{
	struct target *target = &d->target;

	loop_timer_stop(&d->finish_timer);
	loop_timer_stop(&d->apply_timer);
	target_close(target);
	metrics_stop(target);
	control_stop(target);
	last_sync_free(&d->last_sync);
	pollers_stop(target);
	target_withdraw(target);
	state_directory_close(d->state);
	fatal_set_dump(NULL, NULL);
	if (d->signals.loop) {
		loop_fd_remove(&d->signals);
		close(d->signals.fd);
	}
	target_deinit(target);
}

/* The device or a disk may still use memory of stranded queues, so nothing is freed. */
static __attribute__((noreturn)) void end_at_once(struct daemon *d)
{
	log_err("stopping with %u connections that are not whole", d->target.n_stranded);
	target_close(&d->target);
	control_stop(&d->target);
	health_end(d->target.runtime.health);
	_exit(EXIT_FAILED);
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
		if (code == EXIT_OK) {
			code = start(&d);
			if (code == EXIT_OK)
				loop_run(&d.target.loop);
			if (d.target.n_stranded)
				end_at_once(&d);
			if (d.last_sync.n_failed)
				code = EXIT_FAILED;
			end(&d);
		}
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
	return r;
}
