/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A storm: several programs work on one rblkd at once.
 *
 *   hosts      send any command, aborts among them, and die       host_role.c, commands.c
 *   a keeper   writes blocks, and proves what it reads            keeper_role.c
 *   weather    a configuration that changes, a disk that hangs    weather.c
 *
 * Findings: rblkd ends; its log has a record of a defect or of a sanitizer; the keeper reads a
 * wrong block or gets a wrong response; afterwards rblkd holds more than before, or does not serve
 * the next good host at its first try.
 *
 * test_target_storm [--seed N] [--seconds S]     RBLK_STORM=S, RBLK_STORM_SEED=N: the same
 *
 * A storm has some rounds, each with a rblkd of its own, and the next seed. A round prints its
 * seed, from which each role draws its numbers and rblkd gets its tuning. The order in which the
 * roles run is the scheduler's: a finding may need several runs of its seed. SOFTRDMA_LIKE=siw
 * makes the device one of iWARP.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "tests/raw/good_host.h"
#include "tests/storm/storm.h"

enum {
	SECONDS = 10,
	ROLES = STORM_HOSTS + 1, /* 0: the keeper */
	LATE_S = 120,		 /* a role ends at most so long after the storm */
	LOOK_US = 10000,
	LINE_MAX = 1024,
};

static uint64_t seed;
static unsigned seconds = SECONDS;
static struct daemon d;
static struct good_host before;
static uint64_t begin_ns;
static FILE *log_of_rblkd; /* read up to here */

static pid_t roles[ROLES]; /* 0: it has ended */

static int start(void **state)
{
	char preload[512], path[128], *old = getenv("LD_PRELOAD");
	const struct storm_sizes sizes = storm_sizes_of(seed);

	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBHUNG"), old);
	old = strdup(old);
	assert_non_null(old);
	setenv("LD_PRELOAD", preload, 1);
	set_weather_sizes(&sizes);
	daemon_start_configured(&d, write_fair_weather);
	setenv("LD_PRELOAD", old, 1);
	free(old);
	snprintf(path, sizeof(path), "%s/log", d.folder);
	log_of_rblkd = fopen(path, "re");
	assert_non_null(log_of_rblkd);
	good_host_first(&before, &d);
	return 0;
}

static int stop(void **state)
{
	for (unsigned i = 0; i < ROLES; i++)
		if (roles[i] > 0 && !kill(roles[i], SIGKILL))
			waitpid(roles[i], NULL, 0);
	memset(roles, 0, sizeof(roles));
	if (log_of_rblkd)
		fclose(log_of_rblkd);
	seed++;
	daemon_stop(&d); /* a leak that its sanitizer finds is an exit status */
	return 0;
}

/* Executes this program again, so that a role inherits nothing of the test. */
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
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a finding ends the test at once */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/proc/self/exe", "storm", "--role", args[0], args[1], args[2], args[3],
		      args[4], NULL);
		_exit(127);
	}
	return pid;
}

static void find(const char *what)
{
	daemon_show_log(&d);
	fail_msg("%s; seed %llu, after %u s", what, (unsigned long long)seed,
		 (unsigned)((clock_ns() - begin_ns) / NSEC_PER_SEC));
}

/* Reads what was appended to the log. Its last line may still be incomplete. */
static void expect_clean_log(void)
{
	static const char *const faults[] = {
		"a defect of rblkd",
		"check failed",
		"runtime error",
		"ERROR: AddressSanitizer",
		"WARNING: ThreadSanitizer",
	};
	char line[LINE_MAX];

	clearerr(log_of_rblkd);
	while (fgets(line, sizeof(line), log_of_rblkd)) {
		size_t n = strlen(line);

		if (line[n - 1] != '\n' && n < sizeof(line) - 1) {
			fseek(log_of_rblkd, -(long)n, SEEK_CUR);
			return;
		}
		for (unsigned i = 0; i < ARRAY_LEN(faults); i++)
			if (strstr(line, faults[i]))
				find(line);
	}
}

static void expect_well(void)
{
	char what[64];
	int status;

	expect_clean_log();
	if (!daemon_has_ended(&d, &status))
		return;
	snprintf(what, sizeof(what), "rblkd has ended, status %#x", status);
	find(what);
}

static void wait_for_role(unsigned role, uint64_t deadline_ns)
{
	pid_t pid = roles[role];
	char what[64];
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		expect_well();
		if (clock_ns() > deadline_ns) {
			kill(pid, SIGKILL);
			snprintf(what, sizeof(what), "role %u does not end", role);
			find(what);
		}
		usleep(LOOK_US);
	}
	roles[role] = 0;
	if (status) {
		snprintf(what, sizeof(what), "role %u has ended, status %#x", role, status);
		find(what);
	}
}

/* A role that has a finding ends before the storm does. */
static void expect_no_finding(void)
{
	int status;

	for (unsigned i = 0; i < ROLES; i++) {
		if (waitpid(roles[i], &status, WNOHANG) != roles[i])
			continue;
		roles[i] = 0;
		find("a role has ended before the storm");
	}
}

static void a_storm_leaves_nothing(void **state)
{
	const struct storm_sizes sizes = storm_sizes_of(seed);
	struct dice dice = dice_of(seed, STREAM_WEATHER);
	uint64_t end_ns;

	begin_ns = clock_ns();
	end_ns = begin_ns + seconds * NSEC_PER_SEC;
	print_message(
		"# seed %llu, %u s; max_transfer %u, inline_data %u, queue_depth %u, shared_receives %u, workers %u\n",
		(unsigned long long)seed, seconds, sizes.max_transfer, sizes.inline_data,
		sizes.queue_depth, sizes.shared_receives, sizes.workers);
	for (unsigned i = 0; i < ROLES; i++)
		roles[i] = start_role(i);
	while (clock_ns() < end_ns) {
		expect_well();
		expect_no_finding();
		change_weather(&d, &dice);
	}
	assert_true(clear_up(&d));
	for (unsigned i = 0; i < ROLES; i++)
		wait_for_role(i, end_ns + LATE_S * NSEC_PER_SEC);
	expect_well();
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
#define ROUND cmocka_unit_test_setup_teardown(a_storm_leaves_nothing, start, stop)
	const struct CMUnitTest tests[] = {ROUND, ROUND, ROUND, ROUND, ROUND};

	static_assert(ARRAY_LEN(tests) == STORM_ROUNDS, "a test each");
	if (argc == 7 && !strcmp(argv[1], "--role"))
		return play(argv + 2);
	read_options(argc, argv);
	seconds = MAX(seconds / STORM_ROUNDS, 1);
	return cmocka_run_group_tests_name("storm", tests, NULL, NULL);
}
