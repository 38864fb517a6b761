/* SPDX-License-Identifier: BSD-3-Clause */
/* See predecessor.h. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/states.h"
#include "target/association/connection.h"
#include "target/association/defect.h"
#include "target/association/portal.h"
#include "target/command/admin/notice.h"
#include "target/operations/change/apply.h"
#include "target/operations/life.h"
#include "target/operations/succession/collect.h"
#include "target/operations/succession/message.h"
#include "target/operations/succession/predecessor.h"
#include "target/operations/succession/successor.h"

enum {
	PREPARE_S = 60, /* devices and buffers may take long to register */
	OPEN_S = 10,
	MOVE_MS = 1000, /* for hosts to leave by themselves */
	PART_S = 10,	/* for slow ones to finish a reset that they have begun */
	SERVE_S = 60,
	INHERITED_FD = 3,
};

#define TO(s) STATE_TO(PREDECESSOR_##s)

static const struct state_rule states[PREDECESSOR_STATES] = {
	[PREDECESSOR_RESTS] = {"resting", TO(PREPARES)},
	[PREDECESSOR_PREPARES] = {"preparing", TO(RESTS) | TO(OPENS)},
	[PREDECESSOR_OPENS] = {"opening", TO(RESTS) | TO(MOVES)},
	[PREDECESSOR_MOVES] = {"moving", TO(RESTS) | TO(LEAVES)},
	[PREDECESSOR_LEAVES] = {"leaving", TO(RESTS) | TO(PARTS)},
	[PREDECESSOR_PARTS] = {"parting", TO(SUCCEEDED) | TO(FAILED)},
	[PREDECESSOR_SUCCEEDED] = {"succeeded", 0},
	[PREDECESSOR_FAILED] = {"failed", 0},
};

const char *predecessor_state_name(const struct predecessor *p)
{
	return states[p->state].name;
}

static void move(struct predecessor *p, enum predecessor_state next)
{
	states_move("predecessor", states, &p->state, next);
}

bool predecessor_is_ending(const struct predecessor *p)
{
	return p->state >= PREDECESSOR_MOVES;
}

bool predecessor_has_given(const struct predecessor *p)
{
	return p->state >= PREDECESSOR_PARTS;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_limit(struct loop_timer *timer);
static void on_parting(struct loop_timer *timer);

/* Where the program of this process was installed. If it has started again, another one may be
 * there by now, and the kernel marks the path. NULL: out of memory. */
static char *find_program(void)
{
	static const char mark[] = " (deleted)";
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	size_t length = n > 0 ? (size_t)n : 0;

	path[length] = '\0';
	if (length > sizeof(mark) && !strcmp(path + length - strlen(mark), mark))
		path[length - strlen(mark)] = '\0';
	return strdup(path);
}

void predecessor_init(struct predecessor *p, struct target *target, char *const *argv)
{
	*p = (struct predecessor){.target = target,
				  .argv = argv,
				  .socket.fd = -1,
				  .limit.on_expiry = on_limit,
				  .parting.on_expiry = on_parting};
	p->path = find_program();
}

static void forget_successor(struct predecessor *p)
{
	loop_timer_stop(&p->limit);
	loop_timer_stop(&p->parting);
	loop_fd_remove(&p->socket);
	if (p->socket.fd >= 0)
		close(p->socket.fd);
	p->socket.fd = -1;
	if (p->successor_pid)
		waitpid(p->successor_pid, NULL, WNOHANG);
	p->successor_pid = 0;
}

/* All that it has opened is closed when this returns. */
static void kill_successor(struct predecessor *p)
{
	if (p->successor_pid && kill(p->successor_pid, SIGKILL) == 0)
		waitpid(p->successor_pid, NULL, 0);
	p->successor_pid = 0;
}

void predecessor_free(struct predecessor *p)
{
	forget_successor(p);
	handover_free(&p->handover);
	free(p->path);
	p->path = NULL;
}

/* ---- starting the successor ------------------------------------------------------------------ */

/* The environment of this process, with the word for the successor. The caller frees it. */
static char **make_environment(char *word)
{
	unsigned n = 0;
	char **environment;

	while (environ[n])
		n++;
	environment = calloc(n + 2, sizeof(*environment));
	if (!environment)
		return NULL;
	environment[0] = word;
	for (unsigned i = 0, to = 1; i < n; i++)
		if (strncmp(environ[i], SUCCESSOR_VARIABLE "=", sizeof(SUCCESSOR_VARIABLE)) != 0)
			environment[to++] = environ[i];
	return environment;
}

static int spawn(struct predecessor *p, int socket)
{
	char word[] = SUCCESSOR_VARIABLE "=3";
	_autofree_ char **environment = make_environment(word);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int r;

	static_assert(INHERITED_FD == 3, "the word");
	if (!environment || !p->path)
		return -ENOMEM;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, socket, INHERITED_FD);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	r = posix_spawn(&p->successor_pid, p->path, &actions, &attributes, p->argv, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (r)
		p->successor_pid = 0;
	return -r;
}

/* Both would differ in what they export to connected hosts. */
static int compare_file(struct predecessor *p, struct error *error)
{
	struct apply_report report;
	int r = 0;

	apply_file(p->target, NULL, APPLY_SHOW, &report);
	if (report.error.code != EXIT_OK)
		r = error_refuse(error, -EINVAL,
				 "the configuration file is wrong: rblkctl diff shows where");
	else if (report.changes.n)
		r = error_refuse(
			error, -EBUSY,
			"the configuration file differs from what runs: rblkctl diff shows how; apply it first");
	apply_report_free(&report);
	return r;
}

/* A new process would know nothing of the lost writes, and take others. */
static int look_for_failed(const struct predecessor *p, struct error *error)
{
	const struct snapshot *snapshot = atomic_load(&p->target->snapshot);

	for (struct namespace_at at = {0}; snapshot_next(snapshot, &at);)
		if (atomic_load(&at.ns->backend->has_failed))
			return error_refuse(
				error, -EBUSY,
				"namespace %s/%u has failed: look at its contents, then restart rblkd",
				at.subsystem->nqn, at.ns->nsid);
	return 0;
}

static int check_begin(struct predecessor *p, struct error *error)
{
	int r;

	if (!target_is_serving(p->target))
		return error_refuse(error, -EBUSY, "rblkd is stopping");
	if (p->state != PREDECESSOR_RESTS)
		return error_refuse(error, -EBUSY,
				    "an upgrade is under way: process %d is its successor",
				    p->successor_pid);
	if (getpid() == 1)
		return error_refuse(
			error, -EINVAL,
			"rblkd is process 1 of its container, which ends with it: restart the container");
	if (!strcmp(p->target->config_path, "-"))
		return error_refuse(
			error, -EINVAL,
			"rblkd has its configuration from standard input, which another one cannot read");
	r = look_for_failed(p, error);
	return r < 0 ? r : compare_file(p, error);
}

static void on_message(struct loop_fd *lfd, uint32_t events);

int predecessor_begin(struct predecessor *p, struct error *error)
{
	int ends[2], r = check_begin(p, error);

	if (r < 0)
		return r;
	r = message_pair(ends);
	if (r < 0)
		return error_refuse(error, r, "cannot make a socket: %s", strerror(-r));
	p->socket = (struct loop_fd){.fd = ends[0], .events = EPOLLIN, .on_event = on_message};
	r = loop_fd_add(&p->target->loop, &p->socket);
	if (r == 0)
		r = spawn(p, ends[1]);
	close(ends[1]);
	if (r < 0) {
		forget_successor(p);
		return error_refuse(error, r, "cannot start %s: %s", p->path ?: "rblkd",
				    strerror(-r));
	}
	p->failure = (struct error){0};
	move(p, PREDECESSOR_PREPARES);
	target_move(p->target, TARGET_YIELDING);
	loop_timer_start(&p->target->loop, &p->limit, PREPARE_S * NSEC_PER_SEC);
	log_info("upgrade: process %d prepares to take over", p->successor_pid);
	return 0;
}

/* ---- until the successor listens ------------------------------------------------------------- */

static void note_failure(struct predecessor *p, const char *why)
{
	error_set(&p->failure, EXIT_FAILED, NULL, "%s", why);
}

/* Nothing has changed for hosts. */
static void abandon(struct predecessor *p, const char *why)
{
	bool was_open = p->state == PREDECESSOR_OPENS;

	kill_successor(p);
	forget_successor(p);
	move(p, PREDECESSOR_RESTS);
	target_move(p->target, TARGET_SERVING);
	note_failure(p, why);
	log_err("upgrade: %s; this process goes on", why);
	if (was_open)
		(void)portals_open(p->target); /* logs */
}

static void let_listen(struct predecessor *p, const char *version)
{
	struct error error;

	if (compare_file(p, &error) < 0) { /* it may have read another one */
		abandon(p, error.message);
		return;
	}
	log_info("upgrade: rblkd %s is prepared", version);
	move(p, PREDECESSOR_OPENS);
	loop_timer_start(&p->target->loop, &p->limit, OPEN_S * NSEC_PER_SEC);
	portals_close(p->target);
	message_send(p->socket.fd, MESSAGE_LISTEN, NULL);
}

static void leave(struct predecessor *p)
{
	loop_timer_stop(&p->limit);
	move(p, PREDECESSOR_LEAVES);
	p->leave(p);
}

static void tell_hosts(struct predecessor *p)
{
	log_info("upgrade: process %d listens; %u connections to finish", p->successor_pid,
		 p->target->n_connections);
	move(p, PREDECESSOR_MOVES);
	target_move(p->target, TARGET_MOVING);
	p->moving_ns = clock_ns();
	notice_moving(p->target);
	loop_timer_start(&p->target->loop, &p->limit, MOVE_MS * NSEC_PER_MSEC);
	predecessor_check(p);
}

static void stop_if_over(struct predecessor *p)
{
	if (p->state > PREDECESSOR_PARTS && defect_has_all_stranded(p->target))
		loop_stop(&p->target->loop);
}

void predecessor_check(struct predecessor *p)
{
	if (p->state == PREDECESSOR_MOVES && !p->target->n_connections)
		leave(p);
	else if (predecessor_has_given(p))
		stop_if_over(p);
}

/* ---- once the successor may have the stores -------------------------------------------------- */

void predecessor_end_hosts(struct predecessor *p)
{
	list_for_each_safe (node, &p->target->connections) {
		struct connection *c = list_entry(node, struct connection, node);

		if (connection_is_parting(c))
			connection_kill(c, "another rblkd serves, and it has not left");
	}
}

static void on_parting(struct loop_timer *timer)
{
	predecessor_end_hosts(container_of(timer, struct predecessor, parting));
}

static void end_handover(struct predecessor *p, enum predecessor_state how)
{
	loop_timer_stop(&p->limit);
	loop_fd_remove(&p->socket);
	move(p, how);
	stop_if_over(p);
}

static void fail(struct predecessor *p, const char *why)
{
	if (!*p->failure.message)
		error_set(&p->failure, EXIT_FAILED, NULL, "the new rblkd does not serve%s%s",
			  *why ? ": " : "", why);
	predecessor_end_hosts(p);
	end_handover(p, PREDECESSOR_FAILED);
}

static void succeed(struct predecessor *p)
{
	end_handover(p, PREDECESSOR_SUCCEEDED);
	log_info("upgrade: process %d serves", p->successor_pid);
	p->on_succeeded(p);
}

/* ---- the time of a state, and the successor's messages --------------------------------------- */

static void on_limit(struct loop_timer *timer)
{
	struct predecessor *p = container_of(timer, struct predecessor, limit);

	if (p->state == PREDECESSOR_MOVES)
		leave(p);
	else if (p->state == PREDECESSOR_PARTS)
		fail(p, "");
	else
		abandon(p, "the new rblkd did not start in time");
}

/* The message of a state; any other is a failure. */
static void take(struct predecessor *p, const struct message *message)
{
	char why[sizeof(message->text) + 64];

	if (message->word == MESSAGE_NONE)
		return;
	if (p->state == PREDECESSOR_PREPARES && message->word == MESSAGE_PREPARED) {
		let_listen(p, message->text);
		return;
	}
	if (p->state == PREDECESSOR_OPENS && message->word == MESSAGE_LISTENING) {
		tell_hosts(p);
		return;
	}
	if (p->state == PREDECESSOR_PARTS) {
		if (message->word == MESSAGE_SERVING)
			succeed(p);
		else
			fail(p, message->word == MESSAGE_FAILED ? message->text : "");
		return;
	}
	snprintf(why, sizeof(why), "the new rblkd %s%s",
		 message->word == MESSAGE_FAILED ? "cannot take over: "
						 : "has ended: its log says why",
		 message->word == MESSAGE_FAILED ? message->text : "");
	if (predecessor_is_ending(p)) {
		/* predecessor_finish starts again */
		loop_fd_remove(&p->socket);
		note_failure(p, why);
	} else {
		abandon(p, why);
	}
}

static void on_message(struct loop_fd *lfd, uint32_t events)
{
	struct predecessor *p = container_of(lfd, struct predecessor, socket);
	struct message message;

	message_receive(lfd->fd, &message);
	while (message.n_fds)
		close(message.fds[--message.n_fds]);
	take(p, &message);
}

void predecessor_cancel(struct predecessor *p)
{
	if (p->state == PREDECESSOR_RESTS)
		return;
	(void)message_send(p->socket.fd, MESSAGE_END, NULL);
	kill_successor(p);
	forget_successor(p);
	move(p, PREDECESSOR_RESTS);
	predecessor_end_hosts(p);
}

/* ---- the end --------------------------------------------------------------------------------- */

void predecessor_collect(struct predecessor *p)
{
	int r = collect_handover(p->target, &p->handover);

	if (r < 0)
		log_errno(r, "upgrade: cannot hand over reservations and memory");
	else
		json_add(p->handover.json, "moving_ns", json_object_new_uint64(p->moving_ns));
}

static int send_all(struct predecessor *p, int socket)
{
	int r = p->handover.json ? collect_send(&p->handover, socket) : 0;

	return r == 0 ? message_send(socket, MESSAGE_YOURS, p->failure.message) : r;
}

/* The program that this process is, although another one may have its path by now. */
static __attribute__((noreturn)) void start_again(struct predecessor *p)
{
	int ends[2];

	kill_successor(p);
	log_err("upgrade: %s; this rblkd starts again", p->failure.message);
	if (message_pair(ends) == 0 && send_all(p, ends[0]) == 0 &&
	    dup2(ends[1], INHERITED_FD) == INHERITED_FD) {
		/* ends[0] stays open until exec: then the successor finds it gone, after all */
		setenv(SUCCESSOR_VARIABLE, "3", 1);
	} else {
		log_err("upgrade: reservations that need not persist, and memory, are lost");
		unsetenv(SUCCESSOR_VARIABLE);
	}
	execv("/proc/self/exe", p->argv);
	log_errno(-errno, "upgrade: cannot start again");
	_exit(EXIT_FAILED);
}

void predecessor_give(struct predecessor *p)
{
	/* If it fails, the successor is gone, and so says the socket. */
	(void)send_all(p, p->socket.fd);
	move(p, PREDECESSOR_PARTS);
}

void predecessor_see_off(struct predecessor *p)
{
	struct loop *loop = &p->target->loop;

	loop_timer_start(loop, &p->limit, SERVE_S * NSEC_PER_SEC);
	loop_timer_start(loop, &p->parting, PART_S * NSEC_PER_SEC);
	if (*p->failure.message)
		fail(p, ""); /* nothing more comes by the socket */
	loop_run(loop);
}

void predecessor_finish(struct predecessor *p)
{
	if (p->state == PREDECESSOR_FAILED)
		start_again(p);
}

bool predecessor_has_outlived(struct predecessor *p)
{
	if (waitpid(p->successor_pid, NULL, WNOHANG) != p->successor_pid)
		return false;
	log_err("upgrade: process %d has died after it served", p->successor_pid);
	p->successor_pid = 0;
	return true;
}
