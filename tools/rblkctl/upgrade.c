/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rblkctl upgrade: rblkd starts the program again, which takes over its portals and stores. This
 * asks for the state until the other process serves, or the first one says that it goes on. Between
 * the two nothing answers for a moment.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/output.h"
#include "tools/rblkctl/client.h"
#include "tools/rblkctl/options.h"
#include "tools/rblkctl/rblkctl.h"

enum {
	PAUSE_MS = 20,
	PROGRESS_S = 3,
	GONE_S = 10,
	SILENCE_S = 120, /* without an answer: both have a minute to end and to begin */
};

static struct {
	bool is_quiet;
} args;

/* An upgrade as its caller knows it. */
struct upgrade {
	const struct options *options;
	uint64_t pid, successor;
	int pidfd; /* of pid; owned; -1: the kernel has none, or it is in another namespace */
	uint64_t answered_ns, said_ns;
	char state[32]; /* the last that was printed */
};

static void say_progress(struct upgrade *u, const char *state)
{
	uint64_t now = clock_ns();

	if (args.is_quiet || u->options->output == OUTPUT_JSON || !strcmp(state, u->state) ||
	    now - u->said_ns < PROGRESS_S * NSEC_PER_SEC)
		return;
	fprintf(stderr, "rblkctl upgrade: %s...\n", state);
	snprintf(u->state, sizeof(u->state), "%s", state);
	u->said_ns = now;
}

/* Whether the upgrade is over: the successor serves, or it has failed, or neither process is there
 * any more. */
static bool is_over(struct upgrade *u, struct json_object *status)
{
	struct json_object *upgrade = answer_member(status, "upgrade");
	const char *state = upgrade ? answer_string(upgrade, "state") : "";

	if (answer_number(status, "pid") != u->pid)
		return true;
	say_progress(u, *state ? state : "starting again");
	return upgrade && (!strcmp(state, "failed") || !strcmp(state, "undone"));
}

/* NULL: nothing answers any more. */
static struct json_object *wait_for_end(struct upgrade *u)
{
	struct json_object *status;

	for (u->answered_ns = u->said_ns = clock_ns();;) {
		if (client_try(u->options, "status", &status) == 0) {
			u->answered_ns = clock_ns();
			if (is_over(u, status))
				return status;
			json_object_put(status);
		} else if (clock_ns() - u->answered_ns > SILENCE_S * NSEC_PER_SEC) {
			return NULL;
		} else {
			say_progress(u, "handing over");
		}
		clock_sleep_ns(PAUSE_MS * NSEC_PER_MSEC);
	}
}

/* Done, and all has been handed over. */
static bool is_done(struct json_object *upgrade)
{
	return upgrade && !strcmp(answer_string(upgrade, "state"), "done") &&
	       !answer_member(upgrade, "reason");
}

/* An rblkd that is neither of the two knows nothing of the upgrade. */
static void complete(struct json_object *status)
{
	struct json_object *upgrade;

	if (answer_member(status, "upgrade"))
		return;
	upgrade = json_object_new_object();
	json_object_object_add(upgrade, "state", json_object_new_string("failed"));
	json_object_object_add(
		upgrade, "reason",
		json_object_new_string(
			"the old and the new rblkd have ended, and another one was started"));
	json_object_object_add(status, "upgrade", upgrade);
}

static int report(const struct upgrade *u, struct json_object *status)
{
	struct json_object *upgrade = answer_member(status, "upgrade");
	uint64_t pid = answer_number(status, "pid");

	if (!is_done(upgrade))
		return fail_with("rblkctl upgrade", EXIT_FAILED, "the log of rblkd has the rest",
				 "%s; rblkd %s (process %llu) serves%s",
				 answer_string(upgrade, "reason"), answer_string(status, "version"),
				 (unsigned long long)pid, pid == u->pid ? " as before" : "");
	if (!args.is_quiet)
		printf("upgraded: rblkd %s (process %llu) -> %s (process %llu)\n"
		       "hosts were told to reconnect; it served after %llu ms\n",
		       answer_string(upgrade, "version_before"), (unsigned long long)u->pid,
		       answer_string(status, "version"), (unsigned long long)u->successor,
		       (unsigned long long)answer_number(upgrade, "held_ms"));
	return EXIT_OK;
}

/* The old process frees what it has, and then tells the service manager. */
static void wait_until_gone(int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};

	if (pidfd >= 0)
		(void)poll(&end, 1, GONE_S * 1000);
}

static int finish(struct upgrade *u)
{
	struct json_object *status = wait_for_end(u);
	int r;

	if (status && answer_number(status, "pid") != u->pid)
		wait_until_gone(u->pidfd);
	if (!status)
		return fail_with(
			"rblkctl upgrade", EXIT_UNREACHABLE, "look at its log: journalctl -u rblkd",
			"%s: neither the old nor the new rblkd answers", u->options->socket);
	complete(status);
	if (u->options->output == OUTPUT_JSON) {
		struct json_object *upgrade = answer_member(status, "upgrade");

		json_object_object_add(upgrade, "schema",
				       json_object_get(answer_member(status, "schema")));
		output_json(upgrade);
		r = is_done(upgrade) ? EXIT_OK : EXIT_FAILED;
	} else {
		r = report(u, status);
	}
	json_object_put(status);
	return r;
}

int run_upgrade(int argc, char **argv)
{
	static const struct args_usage usage = {
		.program = "rblkctl upgrade",
		.positional = "",
		.summary = "Let the rblkd that is installed now take over from the one that runs.",
	};
	static const struct arg more[] = {
		{"quiet", 'q', ARG_FLAG, &args.is_quiet, NULL, "print only errors"},
	};
	struct json_object *answer;
	struct options options;
	struct upgrade u = {.options = &options};
	int first, r = options_parse_with(&usage, more, 1, argc, argv, &options, &first);

	if (r >= 0)
		return r;
	r = client_call(&options, "upgrade", NULL, &answer);
	if (r != EXIT_OK)
		return r;
	u.pid = answer_number(answer, "pid");
	u.successor = answer_number(answer, "successor");
	json_object_put(answer);
	u.pidfd = (int)syscall(SYS_pidfd_open, (pid_t)u.pid, 0);
	r = finish(&u);
	if (u.pidfd >= 0)
		close(u.pidfd);
	return r;
}
