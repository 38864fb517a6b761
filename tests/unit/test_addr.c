/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/addr.h"
#include "base/bits.h"

static void test_with_port(void **state)
{
	static const struct {
		const char *text, *formatted;
	} samples[] = {
		{"10.0.0.1", "10.0.0.1:4420"},
		{"10.0.0.1:1", "10.0.0.1:1"},
		{"10.0.0.1:65535", "10.0.0.1:65535"},
		{"10.0.0.1:0", "10.0.0.1:0"},
		{"0.0.0.0", "0.0.0.0:4420"},
		{"::", "[::]:4420"},
		{"::1", "[::1]:4420"},
		{"[::1]", "[::1]:4420"},
		{"[::1]:8009", "[::1]:8009"},
		{"2001:DB8::1:2", "[2001:db8::1:2]:4420"},
		{"::ffff:10.0.0.1", "[::ffff:10.0.0.1]:4420"},
		{"fe80::1%lo", "[fe80::1%lo]:4420"},
		{"[fe80::1%lo]:5", "[fe80::1%lo]:5"},
	};
	char buf[ADDR_STRING_MAX];

	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		union addr addr;

		assert_int_equal(addr_parse_with_port(samples[i].text, 4420, &addr), 0);
		assert_string_equal(addr_format(buf, &addr), samples[i].formatted);
	}
}

static void test_refused(void **state)
{
	static const char *const samples[] = {
		"",
		":4420",
		"10.0.0.1:",
		"10.0.0.1:65536",
		"10.0.0.1:x",
		"10.0.0.1: 5",
		"10.0.0.1:-1",
		"[10.0.0.1]:5",
		"[::1",
		"[::1]5",
		"[::1]:",
		"[]:5",
		":::1",
		"1::2::3",
		"256.1.1.1",
		"1.2.3",
		"10",
		"0x7f.1",
		"10.0.0.1.5",
		"a b",
		"a/b",
		"-a",
		".a",
		"h\xc3\xbcst",
		"fe80::1%",
		"::1%nonexistent0",
	};

	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		union addr addr = {.in.sin_port = 4711};

		if (addr_parse_with_port(samples[i], 4420, &addr) != -EINVAL)
			fail_msg("'%s' is not refused", samples[i]);
		assert_int_equal(addr.in.sin_port, 4711);
	}
}

static void test_too_long(void **state)
{
	char text[3000];
	union addr addr;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(addr_parse_with_port(text, 1, &addr), -EINVAL);
	text[300] = '\0';
	assert_int_equal(addr_parse(text, 1, &addr), -EINVAL);
}

/* This machine's own name, if it resolves (a bare root file system has no /etc/hosts): addr must
 * return what the resolver returns. And a name that the resolver rejects without a query: its
 * label has more than 63 characters. */
static void test_names(void **state)
{
	struct addrinfo *found = NULL;
	char too_long[65];
	union addr addr;

	if (getaddrinfo("localhost", NULL, NULL, &found) == 0) {
		assert_int_equal(addr_parse_with_port("localhost:5", 1, &addr), 0);
		assert_int_equal(addr_port(&addr), 5);
		freeaddrinfo(found);
	} else {
		assert_int_equal(addr_parse_with_port("localhost:5", 1, &addr), -ENOENT);
	}
	memset(too_long, 'a', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	assert_int_equal(addr_parse(too_long, 1, &addr), -ENOENT);
}

static void test_accessors(void **state)
{
	char buf[ADDR_STRING_MAX];
	union addr a, b, v6, empty = {0};

	assert_int_equal(addr_parse("10.0.0.1", 4420, &a), 0);
	assert_int_equal(addr_parse_with_port("10.0.0.1:4420", 1, &b), 0);
	assert_int_equal(addr_parse("::1", 4420, &v6), 0);
	assert_int_equal(addr_len(&a), sizeof(struct sockaddr_in));
	assert_int_equal(addr_len(&v6), sizeof(struct sockaddr_in6));
	assert_int_equal(addr_port(&a), 4420);
	assert_int_equal(addr_port(&v6), 4420);
	assert_true(addr_is_equal(&a, &b));
	assert_false(addr_is_equal(&a, &v6));
	assert_int_equal(addr_parse("10.0.0.1", 4421, &b), 0);
	assert_false(addr_is_equal(&a, &b));
	assert_int_equal(addr_parse("10.0.0.2", 4420, &b), 0);
	assert_false(addr_is_equal(&a, &b));
	assert_int_equal(addr_parse("::2", 4420, &b), 0);
	assert_false(addr_is_equal(&v6, &b));
	assert_string_equal(addr_format_host(buf, &a), "10.0.0.1");
	assert_string_equal(addr_format_host(buf, &v6), "::1");
	assert_string_equal(addr_format_host(buf, &empty), "-");
	assert_false(addr_is_wildcard(&a));
	assert_false(addr_is_wildcard(&v6));
	assert_int_equal(addr_parse("0.0.0.0", 1, &a), 0);
	assert_int_equal(addr_parse("::", 1, &v6), 0);
	assert_true(addr_is_wildcard(&a));
	assert_true(addr_is_wildcard(&v6));
}

static bool is_same_party(const char *a, const char *b)
{
	union addr x, y;

	assert_int_equal(addr_parse(a, 1, &x), 0);
	assert_int_equal(addr_parse(b, 2, &y), 0);
	return addr_is_same_party(&x, &y);
}

static void test_parties(void **state)
{
	union addr empty = {0}, addr;

	assert_true(is_same_party("10.0.0.1", "10.0.0.1"));
	assert_false(is_same_party("10.0.0.1", "10.0.0.2"));
	assert_true(is_same_party("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"));
	assert_false(is_same_party("2001:db8:1:2::1", "2001:db8:1:3::1"));
	assert_true(is_same_party("fe80::1", "fe80::1"));
	assert_false(is_same_party("fe80::1", "fe80::2"));
	assert_true(is_same_party("::ffff:10.0.0.1", "::ffff:10.0.0.1"));
	assert_false(is_same_party("::ffff:10.0.0.1", "::ffff:10.0.0.2"));
	assert_false(is_same_party("::ffff:10.0.0.1", "::1"));
	assert_false(is_same_party("10.0.0.1", "2001:db8::1"));
	assert_int_equal(addr_parse("2001:db8::1", 1, &addr), 0);
	assert_false(addr_is_same_party(&empty, &empty));
	assert_false(addr_is_same_party(&addr, &empty));
	assert_false(addr_is_same_party(&empty, &addr));
}

static void test_numeric(void **state)
{
	static const char *const refused[] = {
		"",	   "localhost",	     "localhost:5", "10.0.0.1:0",
		"10.0.0.", "10.0.0.1:65536", ":9807",	    "[::1",
		"cafe:1",  "localhost.1:5",  "1.dead.beef"};
	union addr addr;

	for (unsigned i = 0; i < ARRAY_LEN(refused); i++)
		assert_int_equal(addr_parse_numeric(refused[i], 9807, &addr), -EINVAL);
	assert_int_equal(addr_parse_numeric("10.0.0.1", 9807, &addr), 0);
	assert_int_equal(addr_port(&addr), 9807);
	assert_int_equal(addr_parse_numeric("[2001:db8::a]:1", 9807, &addr), 0);
	assert_int_equal(addr_port(&addr), 1);
	assert_int_equal(addr_parse_numeric("[fe80::1%lo]:2", 9807, &addr), 0);
	assert_int_equal(addr.in6.sin6_scope_id, 1);
	assert_int_equal(addr_parse_numeric("10.0.0.1", 0, &addr), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_port), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_too_long),  cmocka_unit_test(test_names),
		cmocka_unit_test(test_accessors), cmocka_unit_test(test_parties),
		cmocka_unit_test(test_numeric),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
