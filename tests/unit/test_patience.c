/* SPDX-License-Identifier: BSD-3-Clause */
/* For how long a loop polls: base/patience.h, with a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/patience.h"

enum {
	SPIN_NS = 20 * 1000,
	LOOK_NS = 100,
};

static struct patience patience;
static uint64_t now_ns;
static uint64_t work_ns; /* that what comes takes */

static int setup(void **state)
{
	patience_init(&patience, SPIN_NS);
	now_ns = NSEC_PER_SEC;
	work_ns = NSEC_PER_USEC;
	return 0;
}

/* n things come; then nothing for pause_ns, in which it polls as long as it wants to and then sleeps.
 * Returns for how long it polled. */
static uint64_t polled_ns(unsigned n, uint64_t pause_ns)
{
	uint64_t start_ns, end_ns;

	patience_found(&patience, now_ns, n);
	now_ns += work_ns;
	start_ns = now_ns;
	while (now_ns - start_ns < pause_ns && patience_lasts(&patience, now_ns))
		now_ns += LOOK_NS;
	end_ns = now_ns;
	if (now_ns - start_ns < pause_ns) {
		now_ns = start_ns + pause_ns;
	}
	return end_ns - start_ns;
}

static void pause_often(unsigned n_times, unsigned n, uint64_t pause_ns)
{
	for (unsigned i = 0; i < n_times; i++)
		polled_ns(n, pause_ns);
}

static void test_short_at_first(void **state)
{
	assert_in_range(polled_ns(1, NSEC_PER_SEC), SPIN_NS, SPIN_NS + LOOK_NS);
}

static void test_follows_the_pauses(void **state)
{
	pause_often(40, 1, 70 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, 70 * NSEC_PER_USEC), 70 * NSEC_PER_USEC);
	/* The end is not waited for for ever. */
	assert_in_range(polled_ns(1, NSEC_PER_SEC), PATIENCE_LONG_NS, PATIENCE_LONG_NS + LOOK_NS);
	pause_often(8, 1, 5 * NSEC_PER_MSEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), SPIN_NS, SPIN_NS + LOOK_NS);
}

static void test_pauses_that_are_too_long(void **state)
{
	pause_often(100, 1, PATIENCE_LONG_NS + 50 * NSEC_PER_USEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), SPIN_NS, SPIN_NS + LOOK_NS);
}

/* What sleeping adds to a pause does not keep it asleep. */
static void test_tries(void **state)
{
	enum {
		PAUSE_NS = 100 * 1000,
		WAKE_UP_NS = 150 * 1000,
		N = 100
	};
	uint64_t polled = 0;

	for (unsigned i = 0; i < N; i++)
		polled = polled_ns(1, polled < PAUSE_NS ? PAUSE_NS + WAKE_UP_NS : PAUSE_NS);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(polled_ns(1, PAUSE_NS), PAUSE_NS);
}

/* Pauses that are really between the two: a try now and then, and mostly sleep. */
static void test_tries_seldom(void **state)
{
	enum {
		PAUSE_NS = 300 * 1000,
		N = 300
	};
	unsigned n_long = 0;

	for (unsigned i = 0; i < N; i++)
		n_long += polled_ns(1, PAUSE_NS) == PAUSE_NS;
	assert_in_range(n_long, 1, N / 10);
}

static void test_asked_for_more(void **state)
{
	patience_init(&patience, NSEC_PER_MSEC);
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), NSEC_PER_MSEC, NSEC_PER_MSEC + LOOK_NS);
}

static void test_never(void **state)
{
	patience_init(&patience, 0);
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, NSEC_PER_SEC), 0);
}

static void test_always(void **state)
{
	patience_init(&patience, PATIENCE_ENDLESS);
	assert_int_equal(polled_ns(1, NSEC_PER_SEC), NSEC_PER_SEC);
	patience_looked(&patience, now_ns, true);
	pause_often(40, 9, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(9, NSEC_PER_SEC), NSEC_PER_SEC);
}

/* Who is brought several things at once leaves a crowded CPU to the others, for a while. */
static void test_crowded(void **state)
{
	pause_often(40, 9, 10 * NSEC_PER_USEC);
	patience_looked(&patience, now_ns, false);
	assert_int_equal(polled_ns(9, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
	patience_looked(&patience, now_ns, true);
	assert_false(patience_must_look(&patience, now_ns + PATIENCE_CROWDED_NS - 1));
	assert_int_equal(polled_ns(9, 10 * NSEC_PER_USEC), 0);
	now_ns += PATIENCE_CROWDED_NS;
	assert_int_equal(polled_ns(9, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

/* What belongs to one I/O may come at once. */
static void test_crowded_one_at_a_time(void **state)
{
	patience_looked(&patience, now_ns, true);
	pause_often(40, 2, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
	/* But not as long as elsewhere: whoever it waits for may want this CPU. */
	assert_in_range(polled_ns(1, NSEC_PER_SEC), PATIENCE_CROWDED * SPIN_NS,
			PATIENCE_CROWDED * SPIN_NS + LOOK_NS);
}

/* Several at once now and then: there is more in flight than one. */
static void test_crowded_several_now_and_then(void **state)
{
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	patience_looked(&patience, now_ns, true);
	polled_ns(8, 10 * NSEC_PER_USEC);
	for (unsigned i = 0; i < 30; i++)
		assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 0);
	patience_looked(&patience, now_ns, true);
	pause_often(100, 1, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

/* One that takes long, as those of 128 KiB. */
static void test_crowded_long_work(void **state)
{
	work_ns = 40 * NSEC_PER_USEC;
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
	patience_looked(&patience, now_ns, true);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 0);
}

/* Short work that was interrupted once is short work. */
static void test_crowded_interrupted(void **state)
{
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	patience_looked(&patience, now_ns, true);
	work_ns = 5 * NSEC_PER_MSEC;
	polled_ns(1, 10 * NSEC_PER_USEC);
	work_ns = NSEC_PER_USEC;
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

/* The look itself is a system call: not often, and not where its answer changes nothing. */
static void test_looks_seldom(void **state)
{
	assert_true(patience_must_look(&patience, now_ns));
	patience_looked(&patience, now_ns, false);
	assert_false(patience_must_look(&patience, now_ns + PATIENCE_LOOK_NS - 1));
	assert_true(patience_must_look(&patience, now_ns + PATIENCE_LOOK_NS));
	patience_looked(&patience, now_ns, true);
	assert_false(patience_must_look(&patience, now_ns + PATIENCE_LOOK_NS));
	assert_true(patience_must_look(&patience, now_ns + PATIENCE_CROWDED_NS));
	patience_init(&patience, 0);
	assert_false(patience_must_look(&patience, now_ns));
	patience_init(&patience, PATIENCE_ENDLESS);
	assert_false(patience_must_look(&patience, now_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_short_at_first, setup),
		cmocka_unit_test_setup(test_follows_the_pauses, setup),
		cmocka_unit_test_setup(test_pauses_that_are_too_long, setup),
		cmocka_unit_test_setup(test_tries, setup),
		cmocka_unit_test_setup(test_tries_seldom, setup),
		cmocka_unit_test_setup(test_asked_for_more, setup),
		cmocka_unit_test_setup(test_never, setup),
		cmocka_unit_test_setup(test_always, setup),
		cmocka_unit_test_setup(test_crowded, setup),
		cmocka_unit_test_setup(test_crowded_one_at_a_time, setup),
		cmocka_unit_test_setup(test_crowded_several_now_and_then, setup),
		cmocka_unit_test_setup(test_crowded_long_work, setup),
		cmocka_unit_test_setup(test_crowded_interrupted, setup),
		cmocka_unit_test_setup(test_looks_seldom, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
