/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates: what is granted over a time of a clock that the test moves, and of threads that share one. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "target/qos/bucket.h"

enum {
	BURST_MS = 100,
	N_PURSES = 8,
	START_S = 1000,
};

static struct bucket bucket;
static struct purse purses[N_PURSES];
static uint64_t now_ns;

static void set_up(uint64_t rate)
{
	bucket = (struct bucket){0};
	for (unsigned i = 0; i < N_PURSES; i++)
		purses[i] = (struct purse){0};
	now_ns = START_S * NSEC_PER_SEC;
	bucket_set(&bucket, rate, BURST_MS * NSEC_PER_MSEC);
}

static bool take(unsigned purse, uint64_t n)
{
	if (bucket_fill(&bucket, &purses[purse], n, now_ns))
		return false;
	bucket_spend(&bucket, &purses[purse], n);
	return true;
}

/* Everybody takes n at a time, as often as they can, for so long. Returns tokens. */
static uint64_t run(unsigned n_purses, uint64_t n, uint64_t duration_ns)
{
	uint64_t end = now_ns + duration_ns, n_taken = 0;

	while (now_ns < end) {
		uint64_t wait_ns = UINT64_MAX;

		for (unsigned i = 0; i < n_purses; i++) {
			while (take(i, n))
				n_taken += n;
			wait_ns = MIN(wait_ns,
				      bucket_fill(&bucket, &purses[i], n, now_ns));
		}
		assert_true(wait_ns > 0);
		now_ns += MAX(wait_ns, 1000);
	}
	return n_taken;
}

static void rate_is_exact_in_the_long_run(void **state)
{
	static const uint64_t rates[] = {10, 1000, 123457, 1000000};
	static const uint64_t sizes[] = {1, 64};

	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 2; j++) {
			uint64_t n_wanted = 500000 * sizes[j];

			set_up(rates[i]);
			run(1, sizes[j], NSEC_PER_SEC); /* the burst is used up */
			assert_in_range(
				run(1, sizes[j], n_wanted * NSEC_PER_SEC / rates[i]),
				n_wanted * 98 / 100, n_wanted * 102 / 100);
		}
}

/* Bandwidth: what one command costs is far more than a batch, or a burst. */
static void large_commands_are_paid_back(void **state)
{
	const uint64_t n = 1 << 20, rate = 4 << 20;

	set_up(rate);
	assert_true(take(0, n));
	run(1, n, NSEC_PER_SEC);
	assert_in_range(run(1, n, 50 * NSEC_PER_SEC), 49 * rate, 51 * rate);
}

static void burst_is_what_was_not_used(void **state)
{
	unsigned n = 0;

	set_up(1000);
	now_ns += 3600 * NSEC_PER_SEC;
	while (take(0, 1))
		n++;
	/* 100 ms of it, and a batch */
	assert_in_range(n, 100, 110);
	now_ns += 10 * NSEC_PER_MSEC;
	n = 0;
	while (take(0, 1))
		n++;
	assert_in_range(n, 5, 15);
}

static void purses_share_one_rate(void **state)
{
	uint64_t n;

	set_up(100000);
	run(N_PURSES, 1, NSEC_PER_SEC);
	n = run(N_PURSES, 1, 20 * NSEC_PER_SEC);
	assert_in_range(n, 20 * 100000 * 98 / 100, 20 * 100000 * 102 / 100);
}

static void wait_is_as_long_as_said(void **state)
{
	uint64_t wait_ns;

	set_up(10);
	while (take(0, 1))
		;
	wait_ns = bucket_fill(&bucket, &purses[0], 1, now_ns);
	assert_in_range(wait_ns, 1, 100 * NSEC_PER_MSEC);
	now_ns += wait_ns - 1;
	assert_false(take(0, 1));
	now_ns++;
	assert_true(take(0, 1));
}

static void rate_changes_at_once(void **state)
{
	set_up(10);
	while (take(0, 1))
		;
	bucket_set(&bucket, 0, 0); /* no limit */
	for (unsigned i = 0; i < 1000; i++)
		assert_true(take(0, 1 << 20));
	bucket_set(&bucket, 1000, BURST_MS * NSEC_PER_MSEC);
	run(1, 1, NSEC_PER_SEC);
	assert_in_range(run(1, 1, 10 * NSEC_PER_SEC), 9800, 10200);
}

/* Threads at the same time: no token is granted twice. */

enum {
	THREAD_TOKENS = 200000,
};

static void *take_all(void *arg)
{
	unsigned purse = (unsigned)((struct purse *)arg - purses);
	uint64_t *n = calloc(1, sizeof(*n));

	assert_non_null(n);
	while (take(purse, 1))
		++*n;
	return n;
}

static void threads_share_one_rate(void **state)
{
	pthread_t threads[4];
	uint64_t n_taken = 0;

	set_up(10 * THREAD_TOKENS); /* a burst of THREAD_TOKENS; the clock stands still */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_all, &purses[i]),
				 0);
	for (unsigned i = 0; i < 4; i++) {
		void *n;

		assert_int_equal(pthread_join(threads[i], &n), 0);
		n_taken += *(uint64_t *)n;
		free(n);
	}
	assert_in_range(n_taken, THREAD_TOKENS * 99ULL / 100,
			THREAD_TOKENS + THREAD_TOKENS / BUCKET_BATCHES + 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate_is_exact_in_the_long_run),
		cmocka_unit_test(large_commands_are_paid_back),
		cmocka_unit_test(burst_is_what_was_not_used),
		cmocka_unit_test(purses_share_one_rate),
		cmocka_unit_test(wait_is_as_long_as_said),
		cmocka_unit_test(rate_changes_at_once),
		cmocka_unit_test(threads_share_one_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
