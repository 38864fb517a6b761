/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A storm: hosts that send anything, a keeper whose blocks must be right, a configuration that
 * changes and a disk that hangs, all at once. Afterwards rblkd is there, holds no more than before,
 * and serves the next good host at its first try.
 *
 * test_target_storm [--seed N] [--seconds S]     RBLK_STORM=S, RBLK_STORM_SEED=N: the same
 *
 * A storm prints its seed. With it each role draws the same numbers; how roles fall together in
 * time is the machine's, so a finding may need some runs of its seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/raw/good_host.h"
#include "tests/storm/storm.h"

enum {
	SECONDS = 10,
	ROLES = STORM_HOSTS + 1, /* 0: the keeper */
	LATE_S = 120,		 /* a role ends so long after the storm, at the latest */
	WEATHER = 63,		 /* its stream of numbers */
};

static uint64_t seed;
static unsigned seconds = SECONDS;
static struct daemon d;
static struct good_host before;

static int start(void **state)
{
	char preload[512], *old = getenv("LD_PRELOAD");

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), old);
	old = strdup(old);
	assert_non_null(old);
	setenv("LD_PRELOAD", preload, 1);
	daemon_start_configured(&d, write_fair_weather);
	setenv("LD_PRELOAD", old, 1);
	free(old);
	good_host_first(&before, &d);
	return 0;
}

static int stop(void **state)
{
	daemon_stop(&d); /* and a leak that its sanitizer finds is an exit status */
	return 0;
}

/* The same program, so that a role has nothing of the test's. */
static pid_t start_role(unsigned role)
{
	char args[5][24];
	pid_t pid;

	snprintf(args[0], sizeof(args[0]), "%u", role);
	snprintf(args[1], sizeof(args[1]), "%u", d.port);
	snprintf(args[2], sizeof(args[2]), "%u", d.second_port);
	snprintf(args[3], sizeof(args[3]), "%llu", (unsigned long long)seed);
	snprintf(args[4], sizeof(args[4]), "%u", seconds);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/proc/self/exe", "storm", "--role", args[0], args[1], args[2], args[3],
		      args[4], NULL);
		_exit(127);
	}
	return pid;
}

static void expect_alive(void)
{
	int status;

	if (!daemon_has_ended(&d, &status))
		return;
	daemon_show_log(&d);
	fail_msg("rblkd has ended, status %#x; seed %llu", status, (unsigned long long)seed);
}

static void wait_for_role(unsigned role, pid_t pid, uint64_t deadline_ns)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		expect_alive();
		if (clock_ns() > deadline_ns) {
			kill(pid, SIGKILL);
			daemon_show_log(&d);
			fail_msg("role %u does not end; seed %llu", role, (unsigned long long)seed);
		}
		usleep(10000);
	}
	if (status) {
		daemon_show_log(&d);
		fail_msg("role %u: status %#x; seed %llu", role, status, (unsigned long long)seed);
	}
}

static void a_storm_leaves_nothing(void **state)
{
	uint64_t end_ns = clock_ns() + seconds * NSEC_PER_SEC;
	struct dice dice = dice_of(seed, WEATHER);
	pid_t roles[ROLES];

	print_message("# seed %llu, %u s\n", (unsigned long long)seed, seconds);
	for (unsigned i = 0; i < ROLES; i++)
		roles[i] = start_role(i);
	while (clock_ns() < end_ns) {
		expect_alive();
		change_weather(&d, &dice);
	}
	assert_true(clear_up(&d));
	for (unsigned i = 0; i < ROLES; i++)
		wait_for_role(i, roles[i], end_ns + LATE_S * NSEC_PER_SEC);
	expect_alive();
	assert_false(daemon_has_logged(&d, "runtime error"));
	assert_false(daemon_has_logged(&d, "ERROR: AddressSanitizer"));
	assert_true(clear_up(&d));
	good_host_next(&before);
}

static int play(char **argv)
{
	unsigned role = (unsigned)strtoul(argv[0], NULL, 10);
	const uint16_t ports[2] = {(uint16_t)strtoul(argv[1], NULL, 10),
				   (uint16_t)strtoul(argv[2], NULL, 10)};
	uint64_t its_seed = strtoull(argv[3], NULL, 10);
	uint64_t end_ns = clock_ns() + strtoull(argv[4], NULL, 10) * NSEC_PER_SEC;

	return role ? play_host(ports, role - 1, its_seed, end_ns)
		    : play_keeper(ports, its_seed, end_ns);
}

static void read_options(int argc, char **argv)
{
	const char *s = getenv("RBLK_STORM"), *n = getenv("RBLK_STORM_SEED");

	seed = n ? strtoull(n, NULL, 10) : clock_ns() % 1000000;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 10);
		if (!strcmp(argv[i], "--seconds"))
			seconds = (unsigned)strtoul(argv[i + 1], NULL, 10);
	}
	if (s)
		seconds = (unsigned)strtoul(s, NULL, 10);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_storm_leaves_nothing),
	};

	if (argc == 7 && !strcmp(argv[1], "--role"))
		return play(argv + 2);
	read_options(argc, argv);
	return cmocka_run_group_tests_name("storm", tests, start, stop);
}
