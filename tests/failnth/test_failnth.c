/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything that rblkd requests from its system fails once, at each place of a request: memory,
 * verbs, aio, files, descriptors, threads. First a run is recorded (failnth.h); then, for each
 * place met,
 *
 *   at the start    rblkd ends with an exit code and logs why, or starts and serves;
 *   while it serves a command fails or a connection ends, nothing acknowledged is lost, the next
 *                   good host is served, and rblkd holds what it held before;
 *   at the end      it ends.
 *
 * It never crashes or, in a sanitizer's build, leaks. Every FAILNTH_STRIDE-th place is taken, all
 * of them by default; FAILNTH_TIMES fails each at its first, second, ... time; FAILNTH_ONLY=pwrite
 * takes those whose description contains that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/failnth/failnth.h"
#include "tests/failnth/scenario.h"
#include "tests/raw/good_host.h"

enum {
	LONG_S = 5,
};

enum phase {
	STARTING,
	SERVING,
	ENDING
};

static struct daemon d;
static struct failnth *shared;
static char path[] = "/tmp/failnth.XXXXXX"; /* the shared file */
static unsigned stride = 1, n_times = 1, round_number;
static const char *only; /* places whose description contains this */

/* ---- the record ------------------------------------------------------------------------------ */

static unsigned number_of(const char *name, unsigned by_default)
{
	const char *value = getenv(name);

	return value && atoi(value) > 0 ? (unsigned)atoi(value) : by_default;
}

static void share(void)
{
	static char preload[8192];
	int fd = mkstemp(path);
	void *p;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, sizeof(*shared)), 0);
	p = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	shared = p;
	snprintf(preload, sizeof(preload), "%s:%s", getenv("LIBFAILNTH"), getenv("LD_PRELOAD"));
	setenv("LD_PRELOAD", preload, 1);
}

/* Only rblkd gets the path: other programs of the test must not meet the failure. */
static bool try_start(int *ret_status)
{
	bool is_ready;

	setenv("FAILNTH", path, 1);
	is_ready = daemon_try(&d, ret_status);
	unsetenv("FAILNTH");
	return is_ready;
}

static void be_in(enum phase phase)
{
	atomic_store(&shared->phase, phase);
}

static int setup(void **state)
{
	int status;

	stride = number_of("FAILNTH_STRIDE", 1);
	n_times = number_of("FAILNTH_TIMES", 1);
	only = getenv("FAILNTH_ONLY");
	share();
	daemon_start_keeping(&d); /* its folder, and all objects that are made once */
	assert_int_equal(daemon_end(&d), 0);
	atomic_store(&shared->is_recording, 1);
	assert_true(try_start(&status));
	be_in(SERVING);
	for (unsigned i = 0; i < 2; i++)
		assert_true(scenario_run(&d, round_number++));
	be_in(ENDING);
	assert_int_equal(daemon_end(&d), 0);
	atomic_store(&shared->is_recording, 0);
	return 0;
}

static int teardown(void **state)
{
	daemon_remove(&d);
	unlink(path);
	return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void arm(const struct failnth_place *place, unsigned nth)
{
	atomic_store(&shared->skip, nth);
	atomic_store(&shared->n_failed, 0);
	atomic_store(&shared->armed, atomic_load(&place->key));
}

/* Whether the armed place has failed. */
static bool disarm(void)
{
	atomic_store(&shared->armed, 0);
	return atomic_load(&shared->n_failed);
}

static void complain(const struct failnth_place *place, unsigned nth, const char *what)
{
	print_message("# %s (time %u): %s\n", place->where, nth + 1, what);
}

/* Each sets *ret_failed when the place was met; false: rblkd did not survive it. */
typedef bool (*test_place)(const struct failnth_place *place, unsigned nth, bool *ret_failed);

static void sweep(enum phase phase, test_place test)
{
	unsigned n = 0, n_bad = 0, n_failed = 0;

	for (unsigned i = 0; i < FAILNTH_PLACES; i++) {
		const struct failnth_place *place = &shared->places[i];
		unsigned n_met = atomic_load(&place->n_met);

		if (!(atomic_load(&place->phases) >> phase & 1) ||
		    (only && !strstr(place->where, only)) || n++ % stride)
			continue;
		for (unsigned nth = 0; nth < n_times && nth < n_met; nth++) {
			bool has_failed = false;
			uint64_t before = clock_ns();

			n_bad += !test(place, nth, &has_failed);
			if (clock_ns() - before > LONG_S * NSEC_PER_SEC)
				complain(place, nth, "that took long");
			n_failed += has_failed;
		}
	}
	print_message("# %u places, failed at %u\n", n, n_failed);
	assert_true(n > 0 || only);
	assert_true(n_failed > 0 || only); /* else no failure was injected, and nothing was shown */
	assert_int_equal(n_bad, 0);
}

/* ---- at the start ---------------------------------------------------------------------------- */

/* Whole files of the state directory are kept: memory that runs out is no damage of a file. */
static bool keeps_state(const struct failnth_place *place, unsigned nth)
{
	if (!daemon_has_logged(&d, "damaged"))
		return true;
	complain(place, nth, "it took a whole file for damaged");
	daemon_show_log(&d);
	return false;
}

static bool is_refusal(const struct failnth_place *place, unsigned nth, int status)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 0 || WEXITSTATUS(status) > 9) {
		complain(place, nth, "it did not refuse to start, it died");
		daemon_show_log(&d);
		return false;
	}
	if (!daemon_has_logged(&d, "error: ")) {
		complain(place, nth, "it did not say why it does not start");
		daemon_show_log(&d);
		return false;
	}
	return true;
}

static bool fail_at_start(const struct failnth_place *place, unsigned nth, bool *ret_failed)
{
	bool is_right = true;
	int status;

	be_in(STARTING);
	arm(place, nth);
	if (!try_start(&status)) {
		*ret_failed = disarm();
		is_right = is_refusal(place, nth, status);
		return keeps_state(place, nth) && is_right;
	}
	*ret_failed = disarm();
	is_right = keeps_state(place, nth);
	if (!scenario_is_served(&d)) {
		complain(place, nth, "it started, and serves no host");
		daemon_show_log(&d);
		is_right = false;
	}
	if (daemon_end(&d)) {
		complain(place, nth, "it started, and did not end well");
		is_right = false;
	}
	return is_right;
}

static void starts_or_says_why_not(void **state)
{
	sweep(STARTING, fail_at_start);
}

/* ---- while it serves ------------------------------------------------------------------------- */

static struct good_host held;
static bool is_running;

static void run(void)
{
	int status;

	be_in(SERVING);
	assert_true(try_start(&status));
	assert_true(scenario_run(&d, round_number++)); /* objects that are made once exist now */
	good_host_first(&held, &d);
	is_running = true;
}

/* In order; a store that has failed cannot be synced, which is an error in the exit status. */
static bool ends_well(void)
{
	int status = daemon_end(&d);

	return !status || (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE &&
			   daemon_has_logged(&d, "cannot be synced"));
}

/* A store that lost accepted data stays failed until a restart. */
static bool is_final(const struct failnth_place *place)
{
	return !strncmp(place->where, "fdatasync", 9) || !strncmp(place->where, "fsync", 5);
}

static bool fail_while_serving(const struct failnth_place *place, unsigned nth, bool *ret_failed)
{
	const char *what = NULL;
	int status;

	if (!is_running)
		run();
	arm(place, nth);
	if (!scenario_run(&d, round_number++))
		what = "a command had no answer, or what it had written was not there";
	*ret_failed = disarm();
	if (daemon_has_ended(&d, &status)) {
		is_running = false;
		what = "it died";
	} else if (!is_final(place) && !scenario_is_served(&d)) {
		what = "it serves no host";
	}
	if (what) {
		complain(place, nth, what);
		daemon_show_log(&d);
	} else {
		good_host_check(&held);
	}
	if (is_running && (what || is_final(place))) {
		is_running = false;
		if (!ends_well())
			what = "it did not end well";
	}
	return !what;
}

static void serves_the_next(void **state)
{
	sweep(SERVING, fail_while_serving);
	if (is_running)
		assert_true(ends_well());
	is_running = false;
}

/* ---- at the end ------------------------------------------------------------------------------ */

static bool fail_at_end(const struct failnth_place *place, unsigned nth, bool *ret_failed)
{
	int status;

	be_in(STARTING);
	assert_true(try_start(&status));
	assert_true(scenario_run(&d, round_number++));
	be_in(ENDING);
	arm(place, nth);
	status = daemon_end(&d);
	*ret_failed = disarm();
	if (WIFEXITED(status) && WEXITSTATUS(status) <= 9)
		return true;
	complain(place, nth, "it died, or went on");
	return false;
}

static void ends(void **state)
{
	sweep(ENDING, fail_at_end);
}

/* An argument selects tests by name. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_or_says_why_not),
		cmocka_unit_test(serves_the_next),
		cmocka_unit_test(ends),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("failnth", tests, setup, teardown);
}
