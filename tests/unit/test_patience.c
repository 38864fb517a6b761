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

static int setup(void **state)
{
	patience_init(&patience, SPIN_NS);
	now_ns = NSEC_PER_SEC;
	return 0;
}

/* n things come; then nothing for pause_ns, in which it polls as long as it wants to and then sleeps.
 * Returns for how long it polled. */
static uint64_t polled_ns(unsigned n, uint64_t pause_ns)
{
	uint64_t start_ns = now_ns, end_ns;

	patience_found(&patience, now_ns, n);
	while (now_ns - start_ns < pause_ns && patience_lasts(&patience, now_ns))
		now_ns += LOOK_NS;
	end_ns = now_ns;
	if (now_ns - start_ns < pause_ns) {
		now_ns = start_ns + pause_ns;
		patience_woke(&patience, now_ns);
	}
	return end_ns - start_ns;
}

static void pause_often(unsigned n_times, unsigned n, uint64_t pause_ns)
{
	for (unsigned i = 0; i < n_times; i++)
		polled_ns(n, pause_ns);
}

/* Between two looks in vain somebody else has the CPU. */
static void be_late(void)
{
	patience_found(&patience, now_ns, 1);
	assert_true(patience_lasts(&patience, now_ns));
	now_ns += PATIENCE_LATE_NS;
	patience_lasts(&patience, now_ns);
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
	assert_in_range(polled_ns(1, NSEC_PER_SEC), PATIENCE_LONG_NS,
			PATIENCE_LONG_NS + LOOK_NS);
	pause_often(8, 1, 5 * NSEC_PER_MSEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), SPIN_NS, SPIN_NS + LOOK_NS);
}

static void test_pauses_that_are_too_long(void **state)
{
	pause_often(40, 1, 130 * NSEC_PER_USEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), SPIN_NS, SPIN_NS + LOOK_NS);
}

static void test_asked_for_more(void **state)
{
	patience_init(&patience, NSEC_PER_MSEC);
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), NSEC_PER_MSEC,
			NSEC_PER_MSEC + LOOK_NS);
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
	be_late();
	be_late();
	pause_often(40, 9, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(9, NSEC_PER_SEC), NSEC_PER_SEC);
}

/* Who is brought several things at once leaves a crowded CPU to the others. */
static void test_crowded(void **state)
{
	pause_often(40, 9, 10 * NSEC_PER_USEC);
	be_late();
	assert_in_range(polled_ns(9, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC,
			10 * NSEC_PER_USEC);
	be_late();
	pause_often(40, 9, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(9, 10 * NSEC_PER_USEC), 0);
	now_ns += PATIENCE_CROWDED_NS;
	assert_int_equal(polled_ns(9, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

static void test_crowded_one_at_a_time(void **state)
{
	be_late();
	be_late();
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

/* An interrupt, a page fault: once is no crowd. */
static void test_late_now_and_then(void **state)
{
	for (unsigned i = 0; i < 10; i++) {
		be_late();
		patience_found(&patience, now_ns, 1);
		now_ns += PATIENCE_AGAIN_NS;
	}
	pause_often(40, 9, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(9, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

/* Time that was slept is no time that others took. */
static void test_sleeps_are_not_late(void **state)
{
	pause_often(40, 9, 500 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(9, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_short_at_first, setup),
		cmocka_unit_test_setup(test_follows_the_pauses, setup),
		cmocka_unit_test_setup(test_pauses_that_are_too_long, setup),
		cmocka_unit_test_setup(test_asked_for_more, setup),
		cmocka_unit_test_setup(test_never, setup),
		cmocka_unit_test_setup(test_always, setup),
		cmocka_unit_test_setup(test_crowded, setup),
		cmocka_unit_test_setup(test_crowded_one_at_a_time, setup),
		cmocka_unit_test_setup(test_late_now_and_then, setup),
		cmocka_unit_test_setup(test_sleeps_are_not_late, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
