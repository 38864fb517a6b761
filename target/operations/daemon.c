/* SPDX-License-Identifier: BSD-3-Clause */
/* See daemon.h. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#ifdef HAVE_SYSTEMD
#	include <systemd/sd-daemon.h>
#endif

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/conf_report.h"
#include "base/fatal.h"
#include "base/random.h"
#include "base/ticks.h"
#include "target/association/connection.h"
#include "target/association/defect.h"
#include "target/association/portal.h"
#include "target/engine/record/capsules.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/pollers.h"
#include "target/engine/request/request_poller.h"
#include "target/export/health/health.h"
#include "target/export/state_file.h"
#include "target/operations/change/apply_log.h"
#include "target/operations/change/drain.h"
#include "target/operations/control/control.h"
#include "target/operations/daemon.h"
#include "target/operations/life.h"
#include "target/operations/ownership/ownership.h"
#include "target/operations/stats/metrics.h"

enum {
	APPLY_AGAIN_MS = 200,
	BARRIER_US = 5 * 1000 * 1000,
};

static void notify(const char *state)
{
#ifdef HAVE_SYSTEMD
	sd_notify(0, state);
#endif
}

/* ---- stop --------------------------------------------------------------------------------- */

static void check_stop(struct target *target);

static void on_synced(struct last_sync *sync)
{
	check_stop(&container_of(sync, struct daemon, last_sync)->target);
}

/* systemd otherwise kills the unit after TimeoutStopSec; a disk may need longer. */
static void ask_for_time(void)
{
	notify("EXTEND_TIMEOUT_USEC=30000000");
}

static bool is_left_alone(const struct daemon *d)
{
	return d->target.life == TARGET_GIVING ? connections_are_over(&d->target)
					       : defect_has_all_stranded(&d->target);
}

static void check_stop(struct target *target)
{
	struct daemon *d = container_of(target, struct daemon, target);

	drain_continue(target);
	predecessor_check(&d->predecessor);
	if (target->life < TARGET_GIVING || predecessor_has_given(&d->predecessor))
		return;
	if (!is_left_alone(d) || target->n_drops)
		return;
	loop_timer_stop(&d->finish_timer);
	if (!retire_is_synced(&target->retire))
		return;
	if (d->last_sync.state == LAST_SYNC_OVER)
		loop_stop(&target->loop);
	else
		last_sync_start(&d->last_sync, &target->loop, atomic_load(&target->snapshot));
}

static void on_finish_timeout(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, finish_timer);

	log_warn("stopping: %u connections do not finish their commands; disconnecting them",
		 d->target.n_connections);
	list_for_each_safe (node, &d->target.connections) {
		struct connection *c = list_entry(node, struct connection, node);

		if (c->state != CONNECTION_PARTED)
			connection_kill(c, "rblkd is stopping");
	}
}

static void finish(struct daemon *d, enum target_life next)
{
	struct target *target = &d->target;

	target_move(target, next);
	ownership_stop(target);
	target_close(target);
	d->finish_timer.on_expiry = on_finish_timeout;
	loop_timer_start(&target->loop, &d->finish_timer, DRAIN_S * NSEC_PER_SEC);
	check_stop(target);
}

static void leave(struct predecessor *predecessor)
{
	finish(container_of(predecessor, struct daemon, predecessor), TARGET_GIVING);
}

/* The service goes on in another process. */
static void on_succeeded(const struct predecessor *predecessor)
{
	char text[64];

	snprintf(text, sizeof(text), "MAINPID=%d", predecessor->successor_pid);
	notify(text);
}

static void stop(struct daemon *d)
{
	struct target *target = &d->target;
	bool is_second = target->life == TARGET_STOPPING;

	if (target->life == TARGET_GIVING && d->last_sync.state == LAST_SYNC_OVER) {
		predecessor_end_hosts(&d->predecessor); /* the other one serves from here on */
		return;
	}
	if (is_second || target->life == TARGET_STANDING_BY) {
		log_warn("stopping at once");
		_exit(is_second ? EXIT_FAILED : EXIT_OK);
	}
	notify("STOPPING=1");
	predecessor_cancel(&d->predecessor);
	log_info("stopping: %u connections to finish", target->n_connections);
	if (target->life == TARGET_GIVING)
		target_move(target, TARGET_STOPPING); /* the rest is under way */
	else
		finish(d, TARGET_STOPPING);
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
	if (apply_and_log(&d->target))
		ownership_follow(&d->target);
	else
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

static int init_target(struct daemon *d, const struct daemon_options *options)
{
	const struct target_parts parts = {
		.config = &d->config,
		.check_stop = check_stop,
		.config_path = options->config_path,
		.control_socket = options->control_socket,
		.is_log_level_given = options->is_log_level_given,
	};
	int r;

	d->last_sync.done = on_synced;
	d->last_sync.on_progress = ask_for_time;
	ticks_init();
	r = target_init(&d->target, &parts);
	d->target.retire.on_progress = ask_for_time;
	predecessor_init(&d->predecessor, &d->target, options->argv);
	d->predecessor.leave = leave;
	d->predecessor.on_succeeded = on_succeeded;
	d->target.predecessor = &d->predecessor;
	d->target.successor = &d->successor;
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

static bool open_groups(struct daemon *d)
{
	struct error error, report;

	if (!d->config.group_directory)
		return true;
	d->groups = state_directory_open_shared(d->config.group_directory, &error);
	if (d->groups)
		return true;
	error_set(&report, error.code, NULL, "group_directory: %s", error.message);
	conf_report(d->conf, d->config.group_directory_mark, &report);
	return false;
}

static enum exit_code exit_code_of_config(const struct daemon *d)
{
	return conf_is_busy(d->conf) ? EXIT_BUSY : EXIT_CONFIG;
}

/* Starts what needs the stores, and what only one process of a configuration can have. */
static int offer(struct target *target)
{
	int r = ownership_start(target);

	if (r == 0)
		r = control_start(target);
	if (r == 0)
		r = metrics_start(target);
	if (r == 0)
		health_begin(target->runtime.health, &target->loop, atomic_load(&target->snapshot),
			     &target->controllers);
	return r;
}

static void say_ready(const struct daemon *d)
{
	log_info("ready, portals %u/%u listening", portals_n_listening(&d->target),
		 portals_n_used(&d->target));
}

static enum exit_code open_stores(struct daemon *d, struct handover *handover)
{
	if ((!d->state && !open_state(d)) || (!d->groups && !open_groups(d)))
		return exit_code_of_config(d);
	if (target_export(&d->target, &(struct target_stock){d->state, d->groups, handover},
			  d->conf) < 0)
		return exit_code_of_config(d);
	return EXIT_OK;
}

/* ---- as a successor ------------------------------------------------------------------------ */

/* Mistakes are printed if it is the last try, or if they do not pass. */
static enum exit_code try_to_open(struct daemon *d, struct handover *handover, bool is_last)
{
	_autofree_ char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);
	enum exit_code code;

	if (!out)
		return EXIT_FAILED;
	conf_begin_again(d->conf, out);
	code = open_stores(d, handover);
	conf_begin_again(d->conf, stderr);
	fclose(out);
	if (code != EXIT_OK && (code != EXIT_BUSY || is_last))
		fputs(text, stderr);
	return code;
}

static enum exit_code take_over(struct successor *successor, struct handover *handover,
				bool is_last)
{
	struct daemon *d = container_of(successor, struct daemon, successor);
	enum exit_code code = try_to_open(d, handover, is_last);
	int r = code == EXIT_OK ? offer(&d->target) : 0;

	if (code != EXIT_OK || r < 0)
		return r < 0 ? error_code_of(r) : code;
	snapshot_keep(atomic_load(&d->target.snapshot));
	return EXIT_OK;
}

static void on_serving(struct successor *successor)
{
	say_ready(container_of(successor, struct daemon, successor));
}

static enum exit_code stand_by(struct daemon *d, int socket)
{
	int r = target_prepare(&d->target);

	if (r == 0)
		r = request_pollers_start(&d->target);
	if (r == 0) {
		portals_prepare(&d->target);
		d->successor.open = take_over;
		d->successor.on_serving = on_serving;
		r = successor_start(&d->successor, &d->target, socket);
	}
	return r < 0 ? error_code_of(log_errno(r, "cannot prepare to take over")) : EXIT_OK;
}

/* ---- all ----------------------------------------------------------------------------------- */

static enum exit_code begin(struct daemon *d)
{
	struct target *target = &d->target;
	enum exit_code code = open_stores(d, NULL);
	int r;

	if (code != EXIT_OK)
		return code;
	r = request_pollers_start(target);
	if (r == 0)
		r = offer(target);
	if (r == 0)
		r = target_listen(target);
	if (r < 0)
		return error_code_of(r);
	say_ready(d);
	notify("READY=1");
	return EXIT_OK;
}

enum exit_code daemon_start(struct daemon *d, const struct daemon_options *options)
{
	int socket;

	if (init_target(d, options) < 0)
		return EXIT_FAILED;
	return successor_is_wanted(&socket) ? stand_by(d, socket) : begin(d);
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

/* Hosts of a successor may still leave (connection_part), so pollers run on then. */
static void close_stores(struct daemon *d)
{
	struct target *target = &d->target;

	if (predecessor_is_ending(&d->predecessor)) {
		target_hide(target);
		predecessor_collect(&d->predecessor);
	} else {
		pollers_halt(target);
	}
	target_close_stores(target);
	state_directory_close(d->state);
	state_directory_close(d->groups);
}

/* The successor may have the stores. False: what hosts may still use is not freed. */
static bool give_away(struct daemon *d)
{
	if (!predecessor_is_ending(&d->predecessor))
		return true;
	predecessor_give(&d->predecessor);
	predecessor_see_off(&d->predecessor);
	return !d->target.n_stranded;
}

static void take_apart(struct daemon *d)
{
	struct target *target = &d->target;

	loop_timer_stop(&d->finish_timer);
	loop_timer_stop(&d->apply_timer);
	successor_free(&d->successor);
	ownership_stop(target);
	target_close(target);
	metrics_stop(target);
	control_stop(target);
	last_sync_free(&d->last_sync);
	close_stores(d);
	/* Hosts wait: the rest is not in the successor's way. */
	if (!give_away(d))
		return;
	pollers_stop(target);
	target_withdraw(target);
	fatal_set_dump(NULL, NULL);
	if (d->signals.loop) {
		loop_fd_remove(&d->signals);
		close(d->signals.fd);
	}
}

static enum exit_code hand_over(struct daemon *d, enum exit_code code)
{
	predecessor_finish(&d->predecessor);
#ifdef HAVE_SYSTEMD
	/* Otherwise the end of this process may look like that of the service. */
	sd_notify_barrier(0, BARRIER_US);
#endif
	return predecessor_has_outlived(&d->predecessor) ? EXIT_FAILED : code;
}

enum exit_code daemon_end(struct daemon *d, enum exit_code code)
{
	if (d->target.n_stranded)
		end_at_once(d);
	if (d->last_sync.n_failed)
		code = EXIT_FAILED;
	take_apart(d);
	if (predecessor_is_ending(&d->predecessor))
		code = hand_over(d, code);
	if (d->target.n_stranded)
		_exit(code);
	predecessor_free(&d->predecessor);
	target_deinit(&d->target);
	return code;
}
