/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/crc32.h"
#include "base/units.h"

struct sample {
	const char *text;
	int r;
	uint64_t value;
};

static void check_samples(int (*parse)(const char *, uint64_t *), const struct sample *samples,
			  size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t value = 4711;
		int r = parse(samples[i].text, &value);

		if (r != samples[i].r)
			fail_msg("'%s': %d instead of %d", samples[i].text, r, samples[i].r);
		assert_int_equal(value, r ? 4711 : samples[i].value);
	}
}

static void test_uint(void **state)
{
	static const struct sample samples[] = {
		{"0", 0, 0},
		{"007", 0, 7},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999999", -ERANGE, 0},
		{"", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"1.0", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
	};

	check_samples(units_parse_uint, samples, ARRAY_LEN(samples));
}

static void test_parse_size(void **state)
{
	static const struct sample samples[] = {
		{"0", 0, 0},
		{"4096", 0, 4096},
		{"512B", 0, 512},
		{"4KiB", 0, 4096},
		{"4k", 0, 4096},
		{"1 MiB", 0, MIB},
		{"1G", 0, GIB},
		{"3T", 0, 3 * 1024 * GIB},
		{"1.5GiB", 0, GIB + GIB / 2},
		{"0.25K", 0, 256},
		{"15EiB", 0, 15 * (GIB * GIB)},
		{"16EiB", -ERANGE, 0},
		{"18446744073709551615", 0, UINT64_MAX},
		{"15.99999EiB", -ERANGE, 0},
		{"1.1GiB", -EINVAL, 0},
		{"0.5", -EINVAL, 0},
		{"0.0000000001EiB", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"KiB", -EINVAL, 0},
		{"1kB", -EINVAL, 0},
		{"1MB", -EINVAL, 0},
		{"1  MiB", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1 MiB ", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{".5K", -EINVAL, 0},
		{"5s", -EINVAL, 0},
	};

	check_samples(units_parse_size, samples, ARRAY_LEN(samples));
}

static void test_parse_duration(void **state)
{
	static const struct sample samples[] = {
		{"0", 0, 0},
		{"5", 0, 5 * NSEC_PER_SEC},
		{"0.5", 0, NSEC_PER_SEC / 2},
		{"7ns", 0, 7},
		{"20us", 0, 20000},
		{"500ms", 0, NSEC_PER_SEC / 2},
		{"5s", 0, 5 * NSEC_PER_SEC},
		{"2min", 0, 120 * NSEC_PER_SEC},
		{"1 h", 0, 3600 * NSEC_PER_SEC},
		{"2d", 0, 172800 * NSEC_PER_SEC},
		{"1.5ns", -EINVAL, 0},
		{"2m", -EINVAL, 0},
		{"5KiB", -EINVAL, 0},
		{"213504d", -ERANGE, 0},
		{"", -EINVAL, 0},
	};

	check_samples(units_parse_duration, samples, ARRAY_LEN(samples));
}

static void test_format_size(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *rounded, *exact;
	} samples[] = {
		{0, "0B", "0B"},
		{512, "512B", "512B"},
		{999, "999B", "999B"},
		{1000, "0.98KiB", "1000B"},
		{1024, "1KiB", "1KiB"},
		{1536, "1.5KiB", "1536B"},
		{1023 * KIB, "1MiB", "1023KiB"},
		{MIB + MIB / 2, "1.5MiB", "1536KiB"},
		{100 * GIB, "100GiB", "100GiB"},
		{12345 * MIB, "12.1GiB", "12345MiB"},
		{UINT64_MAX, "16EiB", "18446744073709551615B"},
	};
	char buf[UNITS_MAX];

	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		assert_string_equal(units_format_size(buf, samples[i].bytes), samples[i].rounded);
		assert_string_equal(units_format_exact(buf, samples[i].bytes), samples[i].exact);
	}
}

static void test_format_duration(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} samples[] = {
		{0, "0s"},
		{999, "999ns"},
		{1000, "1us"},
		{1249, "1.2us"},
		{38400, "38us"},
		{9960, "10us"},
		{999400, "999us"},
		{999600, "1ms"},
		{1200000, "1.2ms"},
		{12 * NSEC_PER_SEC, "12s"},
		{59400 * NSEC_PER_MSEC, "59s"},
		{59700 * NSEC_PER_MSEC, "1min00s"},
		{307 * NSEC_PER_SEC, "5min07s"},
		{3600 * NSEC_PER_SEC, "1h00min"},
		{(86400 * 3 + 7200) * NSEC_PER_SEC, "3d02h"},
		{UINT64_MAX, "213503d23h"},
	};
	char buf[UNITS_MAX];

	for (size_t i = 0; i < ARRAY_LEN(samples); i++)
		assert_string_equal(units_format_duration(buf, samples[i].ns), samples[i].text);
}

/* The check value that lists of CRCs give; a run in two pieces has the CRC of the whole. */
static void test_crc32(void **state)
{
	assert_int_equal(crc32_add(0, "", 0), 0);
	assert_int_equal(crc32_add(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(crc32_add(crc32_add(0, "1234", 4), "56789", 5), 0xcbf43926);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uint),
		cmocka_unit_test(test_parse_size),
		cmocka_unit_test(test_parse_duration),
		cmocka_unit_test(test_format_size),
		cmocka_unit_test(test_format_duration),
		cmocka_unit_test(test_crc32),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
