/* SPDX-License-Identifier: BSD-3-Clause */
/* CPU contention: base/crowd.h, with files of our own in place of those in /proc. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/crowd.h"

enum {
	N_CPUS = 2,
	LOOKS = 400,
	LOOK_NS = 2 * 1000 * 1000,
};

/* As many runnable threads as N_CPUS, so that none waits, and one more. */
#define FREE "0.20 0.18 0.12 2/80 11206\n"
#define FULL "0.20 0.18 0.12 3/80 11206\n"

static struct crowd crowd;
static int loadavg_file, schedstat_file;
static uint64_t now_ns, waited_ns;
static unsigned n_usable;

static int setup(void **state)
{
	crowd_init(&crowd);
	crowd_deinit(&crowd);
	crowd.loadavg_fd = loadavg_file = memfd_create("loadavg", 0);
	crowd.schedstat_fd = schedstat_file = memfd_create("schedstat", 0);
	crowd.n_online = N_CPUS;
	crowd.has_quota = false;
	n_usable = N_CPUS;
	now_ns = NSEC_PER_SEC;
	waited_ns = 0;
	return loadavg_file < 0 || schedstat_file < 0;
}

static int teardown(void **state)
{
	crowd_deinit(&crowd);
	crowd_deinit(&crowd); /* a second call has no effect */
	return 0;
}

static void say(int file, const char *text)
{
	assert_int_equal(ftruncate(file, 0), 0);
	assert_int_equal(pwrite(file, text, strlen(text), 0), strlen(text));
}

/* The next sample, after the thread waited this many thousandths of the time for a CPU. */
static bool look_after(unsigned waits, const char *loadavg)
{
	char text[64];

	now_ns += LOOK_NS;
	waited_ns += (uint64_t)waits * LOOK_NS / 1000;
	snprintf(text, sizeof(text), "123456789 %llu 42\n", (unsigned long long)waited_ns);
	say(schedstat_file, text);
	say(loadavg_file, loadavg);
	return crowd_look_on(&crowd, now_ns, n_usable) == CROWD_WAITS;
}

static bool look(const char *loadavg)
{
	return look_after(0, loadavg);
}

/* Samples until a crowd is detected; LOOKS: none was. */
static unsigned looks_until_crowd(unsigned waits, const char *loadavg)
{
	unsigned n = 0;

	while (n < LOOKS && !look_after(waits, loadavg))
		n++;
	return n;
}

static void test_as_many_as_cpus(void **state)
{
	for (unsigned i = 0; i < LOOKS; i++)
		assert_false(look("9.20 8.18 7.12 2/80 11206\n"));
}

static void test_more_than_cpus(void **state)
{
	assert_in_range(looks_until_crowd(0, FULL), 20, 100); /* one sample is no proof */
	assert_in_range(looks_until_crowd(0, FULL), 4, 24);   /* detected sooner the second time */
	assert_int_equal(looks_until_crowd(0, "0.20 0.18 0.12 1/80 11206\n"), LOOKS);
	assert_in_range(looks_until_crowd(0, FULL), 20, 100);
}

/* Occasional contention, as from the kernel's threads that serve us, is no crowd; contention
 * most of the time is. */
static void test_now_and_then(void **state)
{
	bool is_here = false;

	for (unsigned i = 0; i < LOOKS; i++)
		assert_false(look(i % 3 ? FREE : FULL));
	for (unsigned i = 0; i < LOOKS; i++)
		is_here |= look(i % 8 ? FULL : FREE);
	assert_true(is_here);
}

/* A thread that may use a part of the machine looks at its own waits: the rest is others' business.
 */
static void test_waits(void **state)
{
	n_usable = 1;
	assert_int_equal(looks_until_crowd(180, FULL), LOOKS);
	assert_in_range(looks_until_crowd(330, FREE), 20, 200);
	assert_in_range(looks_until_crowd(500, FREE), 4, 24);
	assert_int_equal(looks_until_crowd(0, FREE), LOOKS);
}

/* With all CPUs a wait says nothing: the scheduler has put two threads on one of them. */
static void test_waits_beside_a_free_cpu(void **state)
{
	assert_int_equal(looks_until_crowd(500, FREE), LOOKS);
}

/* A thread that sleeps waits for a moment each time that it wakes. */
static void test_waits_with_sleeps(void **state)
{
	n_usable = 1;
	for (unsigned i = 0; i < LOOKS; i++) {
		assert_false(look_after(500, FREE));
		crowd_sleeps(&crowd);
	}
}

/* Out of quota, the thread waits, too. */
static void test_quota(void **state)
{
	crowd.has_quota = true;
	assert_in_range(looks_until_crowd(500, FREE), 20, 100);
}

/* With as many threads as CPUs none is idle, and none waits. Beside a thread that may use one CPU
 * only, or a part of all by quota, the machine's count says nothing. */
static void test_no_cpu_is_idle(void **state)
{
	for (unsigned i = 0; i < LOOKS; i++)
		assert_false(look(FREE));
	assert_int_equal(crowd_look_on(&crowd, now_ns += LOOK_NS, N_CPUS), CROWD_FULL);
	assert_int_equal(crowd_look_on(&crowd, now_ns += LOOK_NS, 1), CROWD_NONE);
	crowd.has_quota = true;
	assert_int_equal(crowd_look_on(&crowd, now_ns += LOOK_NS, N_CPUS), CROWD_NONE);
	crowd.has_quota = false;
	for (unsigned i = 0; i < LOOKS; i++)
		assert_false(look("0.20 0.18 0.12 1/80 11206\n"));
	assert_int_equal(crowd_look_on(&crowd, now_ns += LOOK_NS, N_CPUS), CROWD_NONE);
}

/* After a crowd it slept for a while: its waits before that count no more. */
static void test_forgets_the_crowd(void **state)
{
	n_usable = 1;
	assert_in_range(looks_until_crowd(330, FREE), 20, 200);
	waited_ns += NSEC_PER_SEC;
	assert_int_equal(looks_until_crowd(100, FREE), LOOKS);
}

static void test_what_is_no_number(void **state)
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
		for (unsigned n = 0; n < LOOKS; n++) {
			assert_false(look(texts[i]));
			say(schedstat_file, texts[i]);
			assert_int_equal(crowd_look(&crowd, ++now_ns), CROWD_NONE);
		}
	crowd_deinit(&crowd);
	for (unsigned n = 0; n < LOOKS; n++) {
		now_ns += LOOK_NS;
		assert_int_equal(crowd_look(&crowd, now_ns), CROWD_NONE);
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

/* The kernel's own files. Two threads share one CPU, so each waits half of the time, however
 * fast the machine is. */
static void test_shared_cpu(void **state)
{
	uint64_t start_ns = clock_ns();
	cpu_set_t before, one;
	pthread_t other;
	bool is_here = false;

	crowd_deinit(&crowd);
	crowd_init(&crowd);
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	atomic_store(&must_end, false);
	assert_int_equal(pthread_create(&other, NULL, compute, NULL), 0);
	while (!is_here && clock_ns() - start_ns < 60 * NSEC_PER_SEC) {
		uint64_t look_ns = clock_ns() + LOOK_NS;

		while (clock_ns() < look_ns)
			;
		is_here = crowd_look(&crowd, clock_ns()) == CROWD_WAITS;
	}
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
		cmocka_unit_test_setup_teardown(test_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_beside_a_free_cpu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waits_with_sleeps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_quota, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_cpu_is_idle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forgets_the_crowd, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_no_number, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared_cpu, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
