/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See failure.h. cmocka calls abort() if CMOCKA_TEST_ABORT is 1. Its handler is not called from
 * inside another function then, so it may call any; SIGALRM ends it if abort() was called from
 * inside malloc().
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/raw/failure.h"

enum {
	DAEMONS_MAX = 8,
	GRACE_S = 10, /* for the end of all daemons */
	HANDLER_S = GRACE_S + 10,
	LOOK_US = 2000,
	STATUS = 1,
};

static struct watched {
	char folder[64];
	pid_t pid; /* 0: it has ended */
} daemons[DAEMONS_MAX];

static pid_t owner; /* children of the test have no daemons */

static struct watched *find(const char *folder)
{
	for (unsigned i = 0; i < DAEMONS_MAX; i++)
		if (!strcmp(daemons[i].folder, folder))
			return &daemons[i];
	return NULL;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* hung_disk.c: all I/O of the disk goes on. */
static void release_disk(const struct watched *w)
{
	char path[128];

	snprintf(path, sizeof(path), "%.63s/hung", w->folder);
	unlink(path);
}

static unsigned n_running(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < DAEMONS_MAX; i++) {
		if (daemons[i].pid && waitpid(daemons[i].pid, NULL, WNOHANG))
			daemons[i].pid = 0;
		n += daemons[i].pid != 0;
	}
	return n;
}

static void end_daemons(void)
{
	uint64_t deadline = clock_ns() + GRACE_S * NSEC_PER_SEC;

	for (unsigned i = 0; i < DAEMONS_MAX; i++) {
		if (!daemons[i].pid)
			continue;
		release_disk(&daemons[i]);
		kill(daemons[i].pid, SIGTERM);
		kill(daemons[i].pid, SIGCONT);
	}
	while (n_running() && clock_ns() < deadline)
		usleep(LOOK_US);
	for (unsigned i = 0; i < DAEMONS_MAX; i++)
		if (daemons[i].pid)
			kill(daemons[i].pid, SIGKILL);
}

/* The end of its log, and each line before that tells of a fault. */
static void show_log(const struct watched *w)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "cd %s && { head -n -60 log | grep -aE "
		 "'Sanitizer|runtime error|check failed|a defect|: SIG[A-Z]+ in thread'; "
		 "tail -n 60 log; } | sed 's/^/# /' >&2",
		 w->folder);
	if (system(command))
		fprintf(stderr, "# no log\n");
	snprintf(command, sizeof(command), "rm -rf %s", w->folder);
	if (system(command))
		fprintf(stderr, "# %s stays\n", w->folder);
}

static void on_abort(int signo)
{
	if (getpid() != owner)
		return; /* abort() ends this child */
	signal(SIGALRM, SIG_DFL);
	alarm(HANDLER_S);
	fflush(NULL);
	fprintf(stderr, "\n");
	end_daemons();
	for (unsigned i = 0; i < DAEMONS_MAX; i++)
		if (*daemons[i].folder)
			show_log(&daemons[i]);
	printf("not ok - the assertion above failed, which ended the program\n");
	fflush(NULL);
	_exit(STATUS);
}

static void begin(void)
{
	struct sigaction action = {.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND};

	owner = getpid();
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	sigaction(SIGABRT, &action, NULL);
}

/* ---- daemons -------------------------------------------------------------------------------- */

void failure_watch(const char *folder, pid_t pid)
{
	struct watched *w = find(folder);

	if (!owner)
		begin();
	if (!w)
		w = find("");
	if (!w)
		return; /* none of the first ones has gone */
	snprintf(w->folder, sizeof(w->folder), "%s", folder);
	w->pid = pid;
}

void failure_forget(const char *folder)
{
	struct watched *w = find(folder);

	if (w)
		*w = (struct watched){0};
}
