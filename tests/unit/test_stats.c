/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: their steps, their sums, and hosts that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/ticks.h"
#include "target/association/connection.h"
#include "target/association/host_stats.h"
#include "target/export/stats.h"

static void test_steps(void **state)
{
	assert_int_equal(stats_step(0), 0);
	assert_int_equal(stats_step(256), 0);
	assert_int_equal(stats_step(UINT64_MAX), STATS_STEPS - 1);
	assert_int_equal(histogram_step(256), STATS_FIRST_STEP);
	for (unsigned i = 0; i < STATS_STEPS - 1; i++) {
		uint64_t end = histogram_step_end(STATS_FIRST_STEP + i);

		assert_int_equal(stats_step(end), i);
		assert_int_equal(stats_step(end + 1), i + 1);
	}
}

/* The same samples, counted here and in a struct histogram, give the same quantiles. */
static void test_quantiles(void **state)
{
	static struct io_stats parts[3], sum;
	static struct histogram wanted, got;

	srandom(7);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t ns = 256 + ((uint64_t)random() << 4 >> random() % 24);
		struct io_stats *part = &parts[i % 3];

		part->counts[stats_step(ns)]++;
		part->sum_ns += ns;
		histogram_add(&wanted, ns);
	}
	for (unsigned i = 0; i < 3; i++)
		io_stats_merge(&sum, &parts[i]);
	assert_int_equal(io_stats_count(&sum), 100000);
	io_stats_histogram(&sum, &got);
	assert_memory_equal(got.counts, wanted.counts, sizeof(got.counts));
	assert_int_equal(got.sum_ns, wanted.sum_ns);
	/* Only the last quantile is coarser: io_stats does not record the maximum. */
	for (unsigned i = 0; i < 999; i++)
		assert_int_equal(histogram_quantile(&got, i / 1000.0),
				 histogram_quantile(&wanted, i / 1000.0));
	assert_in_range(histogram_quantile(&got, 1), wanted.max_ns,
			wanted.max_ns + wanted.max_ns / 16);
}

static void test_ticks(void **state)
{
	uint64_t ticks, ns, limit = 50 * NSEC_PER_MSEC;

	ticks_init();
	ticks = ticks_now();
	ns = clock_ns();
	while (clock_ns() - ns < limit)
		;
	ticks = ticks_between(ticks, ticks_now());
	ns = clock_ns() - ns;
	/* An interruption between two readings adds to either; it is short beside the limit. */
	assert_true(ticks_to_ns(ticks) >= limit - limit / 50);
	assert_true(ticks_to_ns(ticks) <= ns * 2);
	assert_int_equal(ticks_between(5, 4), 0);
	assert_in_range(ticks_to_ns(ticks_from_ns(limit)), limit - 10, limit);
	assert_int_equal(ticks_from_ns(UINT64_MAX), (1ULL << TICKS_LONG) - 1);
	assert_int_equal(ticks_between(0, UINT64_MAX >> 1), (1ULL << TICKS_LONG) - 1);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static struct connection *add_connection(struct target *target, const char *nqn, uint64_t n)
{
	struct connection *c = calloc(1, sizeof(*c));
	struct queue *queue = calloc(1, sizeof(*queue));

	assert_non_null(c);
	assert_non_null(queue);
	c->target = target;
	c->queue = queue;
	list_add_tail(&target->connections, &c->node);
	host_stats_attach(c, nqn);
	queue->counters.n_commands = n;
	queue->io[STATS_WRITE].counts[5] = n;
	queue->io[STATS_WRITE].sum_ns = 300 * n;
	return c;
}

static void drop_connection(struct connection *c)
{
	list_remove(&c->node);
	host_stats_detach(c);
	free(c->queue);
	free(c);
}

static void sum_all(const struct target *target, uint64_t *ret_commands, uint64_t *ret_writes,
		    unsigned *ret_hosts)
{
	struct host_stats sum;

	host_stats_sum(target, target->other_hosts, &sum);
	*ret_commands = sum.counters.n_commands;
	*ret_writes = io_stats_count(&sum.io[STATS_WRITE]);
	*ret_hosts = 0;
	list_for_each (node, &target->host_stats) {
		host_stats_sum(target, list_entry(node, struct host_stats, node), &sum);
		*ret_commands += sum.counters.n_commands;
		*ret_writes += io_stats_count(&sum.io[STATS_WRITE]);
		++*ret_hosts;
	}
}

static void test_hosts(void **state)
{
	static struct target target;
	struct connection *stays, *again;
	uint64_t n_commands, n_writes, wanted = 0;
	unsigned n_hosts;

	list_init(&target.connections);
	assert_int_equal(host_stats_init(&target), 0);
	stays = add_connection(&target, "nqn.2026-01.org.example:stays", 1000);
	wanted += 1000;
	for (unsigned i = 1; i <= 3 * HOSTS_REMEMBERED; i++) {
		char nqn[64];

		snprintf(nqn, sizeof(nqn), "nqn.2026-01.org.example:%u", i);
		drop_connection(add_connection(&target, nqn, i));
		wanted += i;
	}
	sum_all(&target, &n_commands, &n_writes, &n_hosts);
	assert_int_equal(n_hosts, HOSTS_REMEMBERED + 1);
	assert_int_equal(n_commands, wanted);
	assert_int_equal(n_writes, wanted);
	assert_int_equal(target.other_hosts->n_connects, 2 * HOSTS_REMEMBERED);

	again = add_connection(&target, "nqn.2026-01.org.example:stays", 7);
	assert_ptr_equal(again->host_stats, stays->host_stats);
	drop_connection(stays);
	drop_connection(again);
	sum_all(&target, &n_commands, &n_writes, &n_hosts);
	assert_int_equal(n_hosts, HOSTS_REMEMBERED);
	assert_int_equal(n_commands, wanted + 7);
	assert_int_equal(n_writes, wanted + 7);
	host_stats_deinit(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_ticks),
		cmocka_unit_test(test_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
