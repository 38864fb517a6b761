/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections before Connect or authentication: admission counts and limits them by the address
 * they come from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "target/association/admission.h"
#include "target/association/connection.h"

enum {
	BURST = 8, /* of one prefix: half of limits.connections */
	PENDING = 4,
};

static struct target_config config = {
	.limits = {.connections = 2 * BURST,
		   .pending = 64,
		   .pending_per_host = PENDING,
		   .connect_rate = NSEC_PER_SEC,
		   .connect_rate_per_host = 1},
};
static struct target target;

static int begin(void **state)
{
	target = (struct target){.config = &config, .admission = admission_new()};
	list_init(&target.connections);
	return target.admission ? 0 : -1;
}

static int end(void **state)
{
	admission_free(target.admission);
	return 0;
}

static union addr address(const char *prefix, unsigned n)
{
	char text[ADDR_STRING_MAX];
	union addr addr;

	snprintf(text, sizeof(text), "%s%u", prefix, n);
	check(addr_parse(text, 4420, &addr) == 0);
	return addr;
}

/* How many of n connections from consecutive addresses with this prefix are admitted. */
static unsigned let_in(const char *prefix, unsigned n)
{
	unsigned n_in = 0;

	for (unsigned i = 1; i <= n; i++) {
		union addr from = address(prefix, i);

		if (admission_refuse(&target, &from))
			continue;
		admission_pay(&target, &from);
		n_in++;
	}
	return n_in;
}

/* At most the burst and one ahead of the rate; a slow machine earns some more. */
static void rates_count_parties(void **state)
{
	assert_in_range(let_in("2001:db8:0:1::", 64), BURST, BURST + 32);
	assert_int_equal(let_in("2001:db8:0:2::", BURST), BURST);
	assert_int_equal(let_in("10.0.0.", 64), 64);
	assert_int_equal(let_in("fe80::", 64), 64);
	assert_int_equal(let_in("::ffff:10.0.1.", 64), 64);
}

/* A connection that has not sent Connect yet. */
static void add_pending(struct connection *c, struct cm_conn *conn, union addr from)
{
	*conn = (struct cm_conn){.remote = from};
	*c = (struct connection){.cm = conn};
	list_add_tail(&target.connections, &c->node);
	target.n_pending++;
}

static void silence_counts_parties(void **state)
{
	struct cm_conn conns[PENDING];
	struct connection connections[PENDING];
	union addr same = address("2001:db8:0:1::", 9999);
	union addr other = address("2001:db8:0:2::", 1);

	for (unsigned i = 0; i < PENDING; i++) {
		assert_null(admission_refuse(&target, &same));
		add_pending(&connections[i], &conns[i], address("2001:db8:0:1::", i + 1));
	}
	assert_non_null(admission_refuse(&target, &same));
	assert_null(admission_refuse(&target, &other));
	list_init(&target.connections);
	for (unsigned i = 0; i < PENDING; i++)
		add_pending(&connections[i], &conns[i], address("10.0.0.", i + 1));
	same = address("10.0.0.", 1);
	assert_null(admission_refuse(&target, &same));
}

/* The strangers' places and rate are used up; from a known address hosts come as before, up to
 * limits of their own. */
static void strangers_do_not_keep_known_hosts_out(void **state)
{
	struct cm_conn conns[PENDING];
	struct connection connections[PENDING];
	union addr known = address("10.1.0.", 1), stranger = address("10.1.0.", 2);

	let_in("2001:db8:0:1::", 64);
	target.n_pending = target.n_strangers = 64; /* limits.pending */
	admission_remember(&target, &known);
	assert_false(admission_is_stranger(&target, &known));
	assert_true(admission_is_stranger(&target, &stranger));
	assert_non_null(admission_refuse(&target, &stranger));
	for (unsigned i = 0; i < PENDING; i++) {
		assert_null(admission_refuse(&target, &known));
		add_pending(&connections[i], &conns[i], known);
	}
	assert_non_null(admission_refuse(&target, &known));
}

/* The table of known addresses has an end, and a later one takes the place of the first. */
static void the_oldest_known_address_is_forgotten(void **state)
{
	union addr first = address("10.1.0.", 1), last;

	for (unsigned i = 0; i < 257; i++) {
		last = address(i < 200 ? "10.1.0." : "10.2.0.", i % 200 + 1);
		admission_remember(&target, &last);
		admission_remember(&target, &last);
	}
	assert_true(admission_is_stranger(&target, &first));
	assert_false(admission_is_stranger(&target, &last));
	last = address("10.1.0.", 2);
	assert_false(admission_is_stranger(&target, &last));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rates_count_parties, begin, end),
		cmocka_unit_test_setup_teardown(silence_counts_parties, begin, end),
		cmocka_unit_test_setup_teardown(strangers_do_not_keep_known_hosts_out, begin, end),
		cmocka_unit_test_setup_teardown(the_oldest_known_address_is_forgotten, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
