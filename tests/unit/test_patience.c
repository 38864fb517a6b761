/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a loop polls: base/patience.h, with a clock of our own. */
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
static uint64_t work_ns; /* the time to handle the items */

static int setup(void **state)
{
	patience_init(&patience, SPIN_NS);
	now_ns = NSEC_PER_SEC;
	work_ns = NSEC_PER_USEC;
	return 0;
}

/* n items arrive, then none for pause_ns. The loop polls for as long as patience allows and then
 * sleeps. Returns the time that it polled. */
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
	/* Polling is bounded when the next item does not come. */
	assert_in_range(polled_ns(1, NSEC_PER_SEC), PATIENCE_LONG_NS, PATIENCE_LONG_NS + LOOK_NS);
	pause_often(8, 1, 5 * NSEC_PER_MSEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), SPIN_NS, SPIN_NS + LOOK_NS);
}

static void test_pauses_that_are_too_long(void **state)
{
	pause_often(100, 1, PATIENCE_LONG_NS + 50 * NSEC_PER_USEC);
	assert_in_range(polled_ns(1, NSEC_PER_SEC), SPIN_NS, SPIN_NS + LOOK_NS);
}

/* The wake-up latency that sleeping adds to a pause does not keep the loop asleep. */
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

/* True pauses between the two limits: the loop polls as an occasional trial, and mostly sleeps. */
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

/* On a crowded CPU a loop that receives batches stops polling for a while. */
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

/* Two items at once may belong to one I/O, so they are no batch. */
static void test_crowded_one_at_a_time(void **state)
{
	patience_looked(&patience, now_ns, true);
	pause_often(40, 2, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
	/* But it polls for less time than elsewhere: its peer may need this CPU. */
	assert_in_range(polled_ns(1, NSEC_PER_SEC), PATIENCE_CROWDED * SPIN_NS,
			PATIENCE_CROWDED * SPIN_NS + LOOK_NS);
}

/* An occasional batch shows that more than one I/O is in flight. */
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

/* One item that takes long, such as an I/O of 128 KiB. */
static void test_crowded_long_work(void **state)
{
	work_ns = 40 * NSEC_PER_USEC;
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
	patience_looked(&patience, now_ns, true);
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 0);
}

/* Short work that was interrupted once still counts as short. */
static void test_crowded_interrupted(void **state)
{
	pause_often(40, 1, 10 * NSEC_PER_USEC);
	patience_looked(&patience, now_ns, true);
	work_ns = 5 * NSEC_PER_MSEC;
	polled_ns(1, 10 * NSEC_PER_USEC);
	work_ns = NSEC_PER_USEC;
	assert_int_equal(polled_ns(1, 10 * NSEC_PER_USEC), 10 * NSEC_PER_USEC);
}

/* The check for a crowd is a system call, so it is rare, and omitted if its result changes
 * nothing. */
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
