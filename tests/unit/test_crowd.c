/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether others want our CPUs: base/crowd.h, with a /proc/loadavg of our own. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/crowd.h"

enum {
	N_CPUS = 2,
	LOOKS = 40,
};

static struct crowd crowd;
static int file;
/* So much between two looks that whatever this machine does to us is seldom. */
static uint64_t now_ns;

static int setup(void **state)
{
	crowd_init(&crowd);
	crowd_deinit(&crowd);
	file = memfd_create("loadavg", 0);
	crowd.loadavg_fd = file;
	crowd.n_cpus = N_CPUS;
	now_ns = 1;
	return file < 0;
}

static int teardown(void **state)
{
	crowd_deinit(&crowd);
	crowd_deinit(&crowd); /* once more is no harm */
	return 0;
}

static bool look(const char *loadavg)
{
	assert_int_equal(ftruncate(file, 0), 0);
	assert_int_equal(pwrite(file, loadavg, strlen(loadavg), 0), strlen(loadavg));
	now_ns += 1000 * NSEC_PER_SEC;
	return crowd_is_here(&crowd, now_ns);
}

static void test_as_many_as_cpus(void **state)
{
	for (unsigned i = 0; i < LOOKS; i++)
		assert_false(look("9.20 8.18 7.12 2/80 11206\n"));
}

static void test_more_than_cpus(void **state)
{
	for (unsigned i = 0; i < LOOKS; i++)
		look("0.20 0.18 0.12 3/80 11206\n");
	assert_true(look("0.20 0.18 0.12 3/80 11206\n"));
	for (unsigned i = 0; i < LOOKS; i++)
		look("0.20 0.18 0.12 1/80 11206\n");
	assert_false(look("0.20 0.18 0.12 1/80 11206\n"));
}

/* One look is no proof; now and then is nothing; half of the looks is a crowd. */
static void test_now_and_then(void **state)
{
	bool is_here = false;

	for (unsigned i = 0; i < LOOKS; i++)
		assert_false(look(i % 16 ? "0 0 0 2/80 1\n" : "0 0 0 9/80 1\n"));
	for (unsigned i = 0; i < LOOKS; i++)
		is_here = look(i % 2 ? "0 0 0 2/80 1\n" : "0 0 0 9/80 1\n");
	assert_true(is_here);
}

static void test_what_is_no_loadavg(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"0.20",
		"0.20 0.18 0.12",
		"0.20 0.18 0.12 ",
		"a b c d/e f",
		"                                                               ",
		"0.20 0.18 0.12 /80 1"};

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (unsigned n = 0; n < LOOKS; n++)
			assert_false(look(texts[i]));
	close(crowd.loadavg_fd);
	crowd.loadavg_fd = -1;
	for (unsigned n = 0; n < LOOKS; n++) {
		now_ns += 1000 * NSEC_PER_SEC;
		assert_false(crowd_is_here(&crowd, now_ns));
	}
}

/* ---- a CPU that two threads want ------------------------------------------------------ */

static atomic_bool must_end;

static void *compute(void *arg)
{
	while (!atomic_load(&must_end))
		;
	return NULL;
}

/* Without /proc the scheduler's own count tells. One CPU for both, and a clock that hardly goes on: the
 * machine's speed does not matter. */
static void test_switched_away(void **state)
{
	uint64_t start_ns = clock_ns();
	cpu_set_t before, one;
	pthread_t other;
	bool is_here = false;

	crowd_deinit(&crowd);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	atomic_store(&must_end, false);
	assert_int_equal(pthread_create(&other, NULL, compute, NULL), 0);
	now_ns = 1;
	crowd_is_here(&crowd, now_ns);
	while (!is_here && clock_ns() - start_ns < 60 * NSEC_PER_SEC)
		is_here = crowd_is_here(&crowd, ++now_ns);
	atomic_store(&must_end, true);
	pthread_join(other, NULL);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_true(is_here);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_many_as_cpus, setup, teardown),
		cmocka_unit_test_setup_teardown(test_more_than_cpus, setup, teardown),
		cmocka_unit_test_setup_teardown(test_now_and_then, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_no_loadavg, setup, teardown),
		cmocka_unit_test_setup_teardown(test_switched_away, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
