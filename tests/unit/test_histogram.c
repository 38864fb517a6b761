/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/prometheus.h"

static void test_empty(void **state)
{
	static struct histogram h;

	assert_int_equal(histogram_quantile(&h, 0), 0);
	assert_int_equal(histogram_quantile(&h, 0.5), 0);
	assert_int_equal(histogram_quantile(&h, 1), 0);
}

/* A reported quantile is never below the value, and at most 6.25 % above it. */
static void test_error_is_bounded(void **state)
{
	for (unsigned bit = 0; bit < 43; bit++) {
		for (int delta = -1; delta <= 1; delta++) {
			uint64_t ns = (1ULL << bit) + (uint64_t)delta;
			struct histogram h = {0};

			histogram_add(&h, ns);
			histogram_add(&h, ns * 2); /* the maximum bounds no quantile */
			assert_true(histogram_quantile(&h, 0.5) >= ns);
			assert_true(histogram_quantile(&h, 0.5) <= ns + ns / 16);
			assert_int_equal(histogram_quantile(&h, 1), ns * 2);
		}
	}
}

static void test_small_values_are_exact(void **state)
{
	struct histogram h = {0};

	for (uint64_t ns = 0; ns < 20; ns++)
		histogram_add(&h, ns);
	for (uint64_t i = 1; i <= 20; i++)
		assert_int_equal(histogram_quantile(&h, (double)i / 20), i - 1);
}

static void test_uniform(void **state)
{
	static struct histogram h;

	for (uint64_t ns = 1; ns <= 1000000; ns++)
		histogram_add(&h, ns);
	for (unsigned percent = 1; percent <= 100; percent++) {
		uint64_t wanted = percent * 10000ULL;
		uint64_t got = histogram_quantile(&h, percent / 100.0);

		assert_in_range(got, wanted, wanted + wanted / 16);
	}
	assert_int_equal(h.n, 1000000);
	assert_int_equal(h.sum_ns, 500000500000);
	assert_int_equal(h.max_ns, 1000000);
}

static void test_beyond_the_end(void **state)
{
	struct histogram h = {0};

	histogram_add(&h, UINT64_MAX);
	histogram_add(&h, 5);
	assert_int_equal(histogram_quantile(&h, 1), UINT64_MAX);
	assert_int_equal(histogram_quantile(&h, 0.5), 5);
	assert_int_equal(h.counts[ARRAY_LEN(h.counts) - 1], 1);
}

static void test_merge(void **state)
{
	static struct histogram a, b, both;

	srandom(1);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t ns = (uint64_t)random() >> random() % 30;

		histogram_add(i % 3 ? &a : &b, ns);
		histogram_add(&both, ns);
	}
	histogram_merge(&a, &b);
	assert_memory_equal(&a, &both, sizeof(a));
}

/* Any bytes of a label arrive as printable ones, and a bucket counts what is not longer. */
static void test_prometheus(void **state)
{
	char *text = NULL;
	size_t n = 0;
	const struct prometheus p = {open_memstream(&text, &n), "x_"};
	struct histogram h = {0};

	assert_non_null(p.f);
	prometheus_one(&p, "info", "gauge", "Help.",
		       PROMETHEUS_LABELS({"a", "q\"b\\n\n\x80"}, {"b", ""}), 1);
	histogram_add(&h, 4095);
	histogram_add(&h, 4096);
	histogram_add(&h, 100 * NSEC_PER_SEC);
	prometheus_histogram(&p, "t", NULL, &h);
	assert_int_equal(fclose(p.f), 0);
	assert_non_null(strstr(text, "# HELP x_info Help.\n# TYPE x_info gauge\n"
				     "x_info{a=\"q\\\"b\\\\n\\\\x0a\\\\x80\",b=\"\"} 1\n"));
	assert_non_null(strstr(text, "x_t_bucket{le=\"0.000004095\"} 1\n"
				     "x_t_bucket{le=\"0.000008191\"} 2\n"));
	assert_non_null(strstr(text, "x_t_bucket{le=\"8.589934591\"} 2\n"
				     "x_t_bucket{le=\"+Inf\"} 3\n"
				     "x_t_sum 100.000008191\nx_t_count 3\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_error_is_bounded),
		cmocka_unit_test(test_small_values_are_exact),
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_beyond_the_end),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_prometheus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
