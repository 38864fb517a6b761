/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a loop polls: base/patience.h, with a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/patience.h"
#include "base/wake_up_kept.h"

enum {
	WAKE_NS = 20 * 1000,
	NEAR_NS = PATIENCE_SHARE * WAKE_NS,
	POLL_NS = 100,
	SHORT_NS = 5 * 1000,
	FAR_NS = 5 * 1000 * 1000,
};

static struct patience patience;
static uint64_t now_ns;
static struct patience_pause pause_kind;

static int setup(void **state)
{
	patience_init(&patience, SPIN_AUTO, WAKE_NS);
	now_ns = NSEC_PER_SEC;
	pause_kind = (struct patience_pause){0};
	return 0;
}

/* A pause of this length. The loop polls for as long as patience allows, and then sleeps, which
 * makes the pause one wake-up longer. Returns the time for which it polled. */
static uint64_t polled_ns(uint64_t pause_ns)
{
	uint64_t start_ns = ++now_ns, polled;

	patience_begin_pause(&patience, now_ns, pause_kind);
	while (now_ns - start_ns < pause_ns && patience_lasts(&patience, now_ns))
		now_ns += POLL_NS;
	polled = now_ns - start_ns;
	if (polled < pause_ns) {
		patience_sleeps(&patience);
		now_ns = start_ns + pause_ns + WAKE_NS;
	}
	patience_found(&patience, now_ns);
	return polled;
}

static void pause_often(unsigned n_times, uint64_t pause_ns)
{
	for (unsigned i = 0; i < n_times; i++)
		polled_ns(pause_ns);
}

static void meet_crowd(enum crowd_verdict verdict)
{
	patience_looked(&patience, now_ns, verdict);
}

static void assert_polls_for(uint64_t ns)
{
	assert_in_range(polled_ns(FAR_NS), ns, ns + POLL_NS);
}

static void test_one_wake_up_at_first(void **state)
{
	assert_polls_for(WAKE_NS);
}

/* Whatever the pauses were before, a handful of others is believed. */
static void test_follows_the_pauses(void **state)
{
	pause_often(8, NEAR_NS / 2);
	assert_int_equal(polled_ns(NEAR_NS / 2), NEAR_NS / 2);
	assert_polls_for(NEAR_NS);
	pause_often(8, FAR_NS);
	assert_polls_for(WAKE_NS);
	pause_often(8, NEAR_NS / 2);
	assert_polls_for(NEAR_NS);
}

/* A pause in which the loop slept is one wake-up longer, which says nothing of its cause. */
static void test_own_wake_up_does_not_count(void **state)
{
	pause_often(8, NEAR_NS);
	assert_polls_for(NEAR_NS);
}

static void test_pauses_that_are_too_long(void **state)
{
	pause_often(100, NEAR_NS + WAKE_NS);
	assert_polls_for(WAKE_NS);
}

/* One outlier in ten, of any length, changes nothing. */
static void test_outliers(void **state)
{
	pause_often(20, SHORT_NS);
	for (unsigned i = 0; i < 10; i++) {
		polled_ns(NSEC_PER_SEC);
		for (unsigned k = 0; k < 9; k++)
			assert_int_equal(polled_ns(SHORT_NS), SHORT_NS);
	}
	assert_polls_for(NEAR_NS);
}

/* The time that a client takes between two I/Os says nothing of how soon the target answers. */
static void test_answers_apart_from_new_work(void **state)
{
	for (unsigned i = 0; i < 20; i++) {
		pause_kind.n_in_flight = 2;
		polled_ns(4 * WAKE_NS);
		pause_kind.n_in_flight = 0;
		polled_ns(FAR_NS);
	}
	assert_polls_for(WAKE_NS);
	pause_kind.n_in_flight = 2;
	assert_int_equal(polled_ns(4 * WAKE_NS), 4 * WAKE_NS);
}

/* The limits follow from the wake-up alone. */
static void test_scales_with_the_wake_up(void **state)
{
	patience_init(&patience, SPIN_AUTO, 50 * WAKE_NS);
	pause_often(8, 10 * NEAR_NS);
	assert_int_equal(polled_ns(50 * NEAR_NS), 50 * NEAR_NS);
}

static void test_never(void **state)
{
	patience_init(&patience, 0, WAKE_NS);
	pause_often(40, SHORT_NS);
	assert_int_equal(polled_ns(FAR_NS), 0);
}

/* Whatever the pauses were. */
static void test_always(void **state)
{
	patience_init(&patience, SPIN_ALWAYS, WAKE_NS);
	pause_often(8, NSEC_PER_SEC);
	assert_int_equal(polled_ns(NSEC_PER_SEC), NSEC_PER_SEC);
}

/* Threads that want the CPU get it, as with auto. */
static void test_always_in_a_crowd(void **state)
{
	patience_init(&patience, SPIN_ALWAYS, WAKE_NS);
	pause_often(20, SHORT_NS);
	meet_crowd(CROWD_WAITS);
	assert_int_equal(polled_ns(SHORT_NS), 0);
}

/* No thread waits, and the user asks for it: the last CPU is the loop's. */
static void test_always_takes_the_last_cpu(void **state)
{
	patience_init(&patience, SPIN_ALWAYS, WAKE_NS);
	pause_kind.is_local = true;
	now_ns += PATIENCE_VERDICT_NS;
	meet_crowd(CROWD_FULL);
	assert_int_equal(polled_ns(NSEC_PER_SEC), NSEC_PER_SEC);
}

/* Until new looks could have found a crowd, it is as auto. A crowd that is still there would wait
 * for some time slices before each verdict. */
static void test_always_after_a_crowd(void **state)
{
	patience_init(&patience, SPIN_ALWAYS, WAKE_NS);
	pause_often(20, SHORT_NS);
	meet_crowd(CROWD_WAITS);
	now_ns += PATIENCE_CROWDED_NS;
	assert_polls_for(NEAR_NS);
	now_ns += PATIENCE_VERDICT_NS;
	meet_crowd(CROWD_NONE);
	assert_int_equal(polled_ns(NSEC_PER_SEC), NSEC_PER_SEC);
}

/* A time that was asked for is kept, however crowded the CPUs are. */
static void test_time(void **state)
{
	patience_init(&patience, 3 * WAKE_NS, WAKE_NS);
	assert_polls_for(3 * WAKE_NS);
	pause_often(40, SHORT_NS);
	meet_crowd(CROWD_WAITS);
	assert_polls_for(3 * WAKE_NS);
}

/* Where threads wait for a CPU, the loop sleeps at once, however short the pauses are. */
static void test_crowd(void **state)
{
	pause_often(20, SHORT_NS);
	meet_crowd(CROWD_WAITS);
	assert_int_equal(polled_ns(SHORT_NS), 0);
	pause_kind.n_in_flight = 1;
	assert_int_equal(polled_ns(SHORT_NS), 0);
}

/* A client on this machine gets the last CPU. A peer elsewhere has its own. */
static void test_last_cpu(void **state)
{
	pause_often(20, SHORT_NS);
	meet_crowd(CROWD_FULL);
	assert_int_equal(polled_ns(SHORT_NS), SHORT_NS);
	pause_kind.is_local = true;
	assert_int_equal(polled_ns(SHORT_NS), 0);
	pause_kind.n_in_flight = 2; /* they may come together */
	assert_int_equal(polled_ns(SHORT_NS), 0);
	pause_kind.n_in_flight = 1;
	assert_polls_for(PATIENCE_LONE_NS);
	now_ns += PATIENCE_CROWDED_NS;
	pause_kind.n_in_flight = 0;
	assert_int_equal(polled_ns(SHORT_NS), SHORT_NS);
}

static void test_verdict_ends(void **state)
{
	pause_often(20, SHORT_NS);
	meet_crowd(CROWD_WAITS);
	now_ns += PATIENCE_CROWDED_NS;
	assert_int_equal(polled_ns(SHORT_NS), SHORT_NS);
	assert_polls_for(NEAR_NS);
}

/* The second poll of a pause, as long after the first. */
static bool looks_after(uint64_t ns)
{
	patience_begin_pause(&patience, now_ns, pause_kind);
	patience_must_look(&patience, now_ns);
	return patience_must_look(&patience, now_ns += ns);
}

/* The check for a crowd is a system call, so it is rare, and omitted if its result changes
 * nothing. */
static void test_looks_seldom(void **state)
{
	assert_true(looks_after(PATIENCE_LOOK_NS));
	assert_false(patience_must_look(&patience, now_ns + PATIENCE_LOOK_NS - 1));
	assert_true(patience_must_look(&patience, now_ns + PATIENCE_LOOK_NS));
	meet_crowd(CROWD_FULL); /* there may be a crowd besides */
	assert_true(looks_after(2 * PATIENCE_LOOK_NS));
	meet_crowd(CROWD_WAITS);
	assert_false(looks_after(PATIENCE_CROWDED_NS - 1));
	assert_true(looks_after(2 * PATIENCE_LOOK_NS));
	patience_init(&patience, 0, WAKE_NS);
	assert_false(looks_after(PATIENCE_LOOK_NS));
	patience_init(&patience, SPIN_ALWAYS, WAKE_NS);
	assert_true(looks_after(PATIENCE_LOOK_NS));
}

/* A look is due while the loop polls, or it is left out: as a pause begins, and after a sleep,
 * the threads that it has woken run, too. */
static void test_looks_while_it_polls(void **state)
{
	assert_true(looks_after(PATIENCE_LOOK_NS));
	now_ns += 2 * PATIENCE_LOOK_NS;
	patience_begin_pause(&patience, now_ns, pause_kind);
	assert_false(patience_must_look(&patience, now_ns));
	assert_false(patience_must_look(&patience, now_ns + PATIENCE_RETRY_NS - 1));
	assert_true(patience_must_look(&patience, now_ns + PATIENCE_RETRY_NS));
	patience_sleeps(&patience);
	now_ns += 2 * PATIENCE_LOOK_NS;
	assert_false(patience_must_look(&patience, now_ns));
	assert_true(patience_must_look(&patience, now_ns + PATIENCE_RETRY_NS));
}

static void test_spin_as_text(void **state)
{
	static const char *const texts[] = {"auto", "always", "never", "5us", "1s"};
	static const char *const wrong[] = {"", "ever", "2s", "5 parsecs", "-1us"};
	char buf[UNITS_MAX];
	uint64_t spin = 7;

	for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(spin_parse(texts[i], &spin), 0);
		assert_string_equal(spin_format(buf, spin), texts[i]);
	}
	assert_int_equal(spin_parse("0s", &spin), 0);
	assert_string_equal(spin_format(buf, spin), "never");
	spin = 7;
	for (unsigned i = 0; i < ARRAY_LEN(wrong); i++)
		assert_int_not_equal(spin_parse(wrong[i], &spin), 0);
	assert_int_equal(spin, 7);
}

/* ---- the wake-up in the run directory ---- */

static char kept_path[64];

static void write_kept(const char *boot, unsigned n_cpus, const char *ns)
{
	FILE *f = fopen(kept_path, "w");

	assert_non_null(f);
	fprintf(f, "%s %u%s\n", boot, n_cpus, ns);
	fclose(f);
}

static void read_boot(char *boot, int n)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

	assert_non_null(f);
	assert_non_null(fgets(boot, n, f));
	boot[strcspn(boot, "\n")] = '\0';
	fclose(f);
}

/* A file of another boot, for other CPUs, out of range, or of another form says nothing. */
static void test_wake_up_is_kept(void **state)
{
	char folder[] = "/tmp/rblk-wake-up.XXXXXX", boot[64];
	unsigned n_cpus = cpus_in_affinity();

	assert_non_null(mkdtemp(folder));
	setenv("RBLK_RUN_DIR", folder, 1);
	snprintf(kept_path, sizeof(kept_path), "%s/wake-up", folder);
	read_boot(boot, sizeof(boot));
	assert_int_equal(wake_up_kept(20000, 100000), 0);
	wake_up_keep(31000);
	assert_int_equal(wake_up_kept(20000, 100000), 31000);
	assert_int_equal(wake_up_kept(32000, 100000), 0);
	assert_int_equal(wake_up_kept(20000, 30000), 0);
	write_kept(boot, n_cpus, " 32000");
	assert_int_equal(wake_up_kept(20000, 100000), 32000);
	write_kept(boot, n_cpus + 1, " 32000");
	assert_int_equal(wake_up_kept(20000, 100000), 0);
	write_kept("d6fdb6f8-0000-0000-0000-000000000000", n_cpus, " 32000");
	assert_int_equal(wake_up_kept(20000, 100000), 0);
	write_kept(boot, n_cpus, "");
	assert_int_equal(wake_up_kept(20000, 100000), 0);
	write_kept("", n_cpus, " -1");
	assert_int_equal(wake_up_kept(20000, 100000), 0);
	wake_up_keep(33000);
	assert_int_equal(wake_up_kept(20000, 100000), 33000);
	unlink(kept_path);
	assert_int_equal(mkfifo(kept_path, 0600), 0); /* does not block its reader */
	assert_int_equal(wake_up_kept(20000, 100000), 0);
	unlink(kept_path);
	assert_int_equal(symlink("/proc/self/stat", kept_path), 0);
	assert_int_equal(wake_up_kept(0, UINT64_MAX), 0);
	wake_up_keep(34000); /* replaces it */
	assert_int_equal(wake_up_kept(20000, 100000), 34000);
	unlink(kept_path);
	assert_int_equal(rmdir(folder), 0); /* nothing else is left */
	wake_up_keep(33000);		    /* nor fails without the folder */
	assert_int_equal(wake_up_kept(20000, 100000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_one_wake_up_at_first, setup),
		cmocka_unit_test_setup(test_follows_the_pauses, setup),
		cmocka_unit_test_setup(test_own_wake_up_does_not_count, setup),
		cmocka_unit_test_setup(test_pauses_that_are_too_long, setup),
		cmocka_unit_test_setup(test_outliers, setup),
		cmocka_unit_test_setup(test_answers_apart_from_new_work, setup),
		cmocka_unit_test_setup(test_scales_with_the_wake_up, setup),
		cmocka_unit_test_setup(test_never, setup),
		cmocka_unit_test_setup(test_always, setup),
		cmocka_unit_test_setup(test_always_in_a_crowd, setup),
		cmocka_unit_test_setup(test_always_takes_the_last_cpu, setup),
		cmocka_unit_test_setup(test_always_after_a_crowd, setup),
		cmocka_unit_test_setup(test_time, setup),
		cmocka_unit_test_setup(test_crowd, setup),
		cmocka_unit_test_setup(test_last_cpu, setup),
		cmocka_unit_test_setup(test_verdict_ends, setup),
		cmocka_unit_test_setup(test_looks_seldom, setup),
		cmocka_unit_test_setup(test_looks_while_it_polls, setup),
		cmocka_unit_test_setup(test_spin_as_text, setup),
		cmocka_unit_test(test_wake_up_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
