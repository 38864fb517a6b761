/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates: tokens granted over a time of a clock that the test moves, and to threads that share a
 * bucket. */
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
#include "target/export/qos/line.h"

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
	bucket_set(&bucket, rate, BURST_MS * NSEC_PER_MSEC, now_ns);
}

static bool take(unsigned purse, uint64_t n)
{
	if (bucket_fill(&bucket, &purses[purse], bucket_cost(&bucket, n), bucket_batch(&bucket),
			now_ns))
		return false;
	bucket_spend(&purses[purse], bucket_cost(&bucket, n));
	return true;
}

/* Each purse takes n at a time, as often as it can, for so long. Returns the tokens taken. */
static uint64_t run(unsigned n_purses, uint64_t n, uint64_t duration_ns)
{
	uint64_t end = now_ns + duration_ns, n_taken = 0;

	while (now_ns < end) {
		uint64_t wait_ns = UINT64_MAX;

		for (unsigned i = 0; i < n_purses; i++) {
			while (take(i, n))
				n_taken += n;
			wait_ns = MIN(wait_ns,
				      bucket_fill(&bucket, &purses[i], bucket_cost(&bucket, n),
						  bucket_batch(&bucket), now_ns));
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
			assert_in_range(run(1, sizes[j], n_wanted * NSEC_PER_SEC / rates[i]),
					n_wanted * 98 / 100, n_wanted * 102 / 100);
		}
}

/* Bandwidth: one command costs far more than a batch, or a burst. */
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
	/* 100 ms of the rate, and a batch */
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
	wait_ns = bucket_fill(&bucket, &purses[0], bucket_cost(&bucket, 1), bucket_batch(&bucket),
			      now_ns);
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
	bucket_set(&bucket, 0, 0, now_ns); /* no limit */
	for (unsigned i = 0; i < 1000; i++)
		assert_true(take(0, 1 << 20));
	bucket_set(&bucket, 1000, BURST_MS * NSEC_PER_MSEC, now_ns);
	run(1, 1, NSEC_PER_SEC);
	assert_in_range(run(1, 1, 10 * NSEC_PER_SEC), 9800, 10200);
}

/* Threads at the same time: each token is granted once. */

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
		assert_int_equal(pthread_create(&threads[i], NULL, take_all, &purses[i]), 0);
	for (unsigned i = 0; i < 4; i++) {
		void *n;

		assert_int_equal(pthread_join(threads[i], &n), 0);
		n_taken += *(uint64_t *)n;
		free(n);
	}
	assert_in_range(n_taken, THREAD_TOKENS * 99ULL / 100,
			THREAD_TOKENS + THREAD_TOKENS / BUCKET_BATCHES + 4);
}

/* ---- flows --------------------------------------------------------------------------------- */

enum {
	FLOWS_MAX = 12,
	DEPTH_MAX = 64,
	TRIP_US = 20, /* from the end of a command until its flow's next one */
	LATE_US = 30, /* a timer's largest delay */
};

struct command {
	struct fair_entry turn;
	struct flow *flow;
	uint64_t comes_ns; /* while it is with the host */
	bool is_here;
};

struct flow {
	unsigned poller, depth;
	uint64_t n_tokens; /* of each command */
	struct flow_past past;
	struct command commands[DEPTH_MAX];
	uint64_t n_served, worst_ns, last_ns;
};

static struct rate rate;
static struct line lines[POLLERS_MAX];
static struct flow flows[FLOWS_MAX];
static unsigned n_flows;
static uint64_t wake_ns[POLLERS_MAX], random_state = 1;

static uint64_t draw(uint64_t n)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (random_state >> 33) % n;
}

static void set_up_flows(uint64_t n_a_second)
{
	now_ns = START_S * NSEC_PER_SEC;
	rate_init(&rate, lines);
	rate_set(&rate, n_a_second, BURST_MS * NSEC_PER_MSEC, now_ns);
	n_flows = 0;
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		wake_ns[i] = UINT64_MAX;
}

static struct flow *add_flow(unsigned poller, unsigned depth, uint64_t n_tokens)
{
	struct flow *flow = &flows[n_flows++];

	*flow = (struct flow){.poller = poller, .depth = depth, .n_tokens = n_tokens};
	for (unsigned i = 0; i < depth; i++)
		flow->commands[i] = (struct command){.flow = flow, .comes_ns = now_ns};
	return flow;
}

static void note_served(struct command *command)
{
	struct flow *flow = command->flow;

	flow->n_served++;
	if (flow->last_ns)
		flow->worst_ns = MAX(flow->worst_ns, now_ns - flow->last_ns);
	flow->last_ns = now_ns;
	command->is_here = false;
	command->comes_ns = now_ns + TRIP_US * NSEC_PER_USEC;
}

static void wake_in(unsigned poller, uint64_t wait_ns)
{
	uint64_t at = now_ns + wait_ns + draw(LATE_US * NSEC_PER_USEC);

	wake_ns[poller] = MIN(wake_ns[poller], at);
}

static void arrive(struct command *command)
{
	struct flow *flow = command->flow;
	struct line *line = &lines[flow->poller];
	uint64_t wait_ns;

	command->is_here = true;
	wait_ns = line_pay_at_once(line, &flow->past, flow->n_tokens, now_ns);
	if (!wait_ns) {
		note_served(command);
		return;
	}
	if (wait_ns != LINE_IS_LONG)
		wake_in(flow->poller, wait_ns);
	line_add(line, &command->turn, flow, &flow->past);
}

static void serve_line(unsigned poller)
{
	struct line *line = &lines[poller];
	struct fair_entry *first;

	wake_ns[poller] = UINT64_MAX;
	while ((first = fair_first(&line->waiters))) {
		struct command *command = container_of(first, struct command, turn);
		struct flow *flow = command->flow;
		uint64_t wait_ns = line_pay_first(line, &flow->past, flow->n_tokens, now_ns);

		if (wait_ns) {
			wake_in(poller, wait_ns);
			return;
		}
		note_served(command);
	}
}

/* Runs the next event of all commands and timers. False: none before end. */
static bool step(uint64_t end_ns)
{
	struct command *next = NULL;
	uint64_t at = end_ns;
	unsigned poller = POLLERS_MAX;

	for (unsigned i = 0; i < n_flows; i++)
		for (unsigned k = 0; k < flows[i].depth; k++) {
			struct command *command = &flows[i].commands[k];

			if (!command->is_here && command->comes_ns < at) {
				next = command;
				at = command->comes_ns;
			}
		}
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		if (wake_ns[i] < at) {
			poller = i;
			at = wake_ns[i];
		}
	if (at >= end_ns)
		return false;
	now_ns = MAX(now_ns, at);
	if (poller < POLLERS_MAX)
		serve_line(poller);
	else
		arrive(next);
	return true;
}

static void run_flows(double seconds)
{
	uint64_t end_ns = now_ns + (uint64_t)(seconds * NSEC_PER_SEC);

	for (unsigned i = 0; i < n_flows; i++) {
		flows[i].n_served = 0;
		flows[i].worst_ns = 0;
	}
	while (step(end_ns))
		;
	now_ns = end_ns;
}

/* Each flow has its share of the tokens, and together they use the whole rate. */
static void expect_shares(const char *what, double seconds, uint64_t n_a_second)
{
	double sum = 0, share = seconds * (double)n_a_second / n_flows;

	for (unsigned i = 0; i < n_flows; i++) {
		double n = (double)(flows[i].n_served * flows[i].n_tokens);

		if (n < 0.8 * share)
			fail_msg("%s: flow %u of %u (poller %u, depth %u, %llu each): %.0f of %.0f",
				 what, i, n_flows, flows[i].poller, flows[i].depth,
				 (unsigned long long)flows[i].n_tokens, n, share);
		sum += n;
	}
	if (sum < 0.95 * share * n_flows || sum > 1.05 * share * n_flows)
		fail_msg("%s: %.0f in all, of %.0f", what, sum, share * n_flows);
}

static void depth_buys_nothing(void **state)
{
	static const uint64_t rates[] = {20, 100, 1000, 8000};

	for (unsigned i = 0; i < 4; i++)
		for (unsigned n = 2; n <= 6; n++)
			for (unsigned n_pollers = 1; n_pollers <= 3; n_pollers++) {
				double seconds = MAX(200.0 * n / (double)rates[i], 1.0);

				set_up_flows(rates[i]);
				for (unsigned k = 0; k < n; k++)
					add_flow(k % n_pollers, k % 2 ? 1 : 28, 1);
				run_flows(1); /* the burst */
				run_flows(seconds);
				expect_shares("operations", seconds, rates[i]);
			}
}

/* Each flow has commands of another size; the shares are in bytes. */
static void size_buys_nothing(void **state)
{
	static const uint64_t rates[] = {64 << 10, 1 << 20, 32 << 20, 128 << 20};
	static const uint64_t sizes[] = {4096, 128 << 10, 512, 1 << 20, 16384};

	for (unsigned i = 0; i < 4; i++)
		for (unsigned n = 2; n <= 5; n++)
			for (unsigned n_pollers = 1; n_pollers <= 2; n_pollers++) {
				/* long enough for 20 turns of the flow with the largest commands */
				uint64_t largest = n < 4 ? 128 << 10 : 1 << 20;
				double seconds = MAX(
					20.0 * (double)(largest * n) / (double)rates[i], 0.3);

				set_up_flows(rates[i]);
				for (unsigned k = 0; k < n; k++)
					add_flow(k % n_pollers, k % 2 ? 1 : 16, sizes[k]);
				run_flows(2 * (double)(largest * n) / (double)rates[i] + 0.2);
				run_flows(seconds);
				expect_shares("bytes", seconds, rates[i]);
			}
}

/* One poller has many flows, the other has one. */
static void pollers_buy_nothing(void **state)
{
	for (unsigned many = 1; many <= 8; many++)
		for (unsigned depth = 1; depth <= 32; depth += 31) {
			set_up_flows(500);
			for (unsigned k = 0; k < many; k++)
				add_flow(0, 32, 1);
			add_flow(5, depth, 1);
			run_flows(1);
			run_flows(10);
			expect_shares("lopsided", 10, 500);
		}
}

/* A flow that was idle neither saves up tokens nor is in debt, and the others get the whole rate
 * meanwhile. */
static void a_flow_that_was_away_has_its_share(void **state)
{
	set_up_flows(1000);
	add_flow(0, 16, 1);
	run_flows(20);
	expect_shares("alone", 20, 1000);
	add_flow(1, 1, 1);
	add_flow(0, 4, 1);
	run_flows(3);
	expect_shares("together", 3, 1000);
	/* One command at a time: at most some turns of the others precede it. */
	for (unsigned i = 0; i < n_flows; i++)
		assert_in_range(flows[i].worst_ns, 0, 30 * NSEC_PER_MSEC);
}

/* A time that was charged at a low rate does not delay commands at a high one. */
static void rate_changes_for_those_in_line(void **state)
{
	set_up_flows(4096);
	add_flow(0, 16, 128 << 10);
	add_flow(1, 1, 4096);
	run_flows(100);
	rate_set(&rate, 64 << 20, BURST_MS * NSEC_PER_MSEC, now_ns);
	serve_line(0);
	serve_line(1);
	run_flows(1);
	run_flows(3);
	expect_shares("after", 3, 64 << 20);
	rate_set(&rate, 1 << 20, BURST_MS * NSEC_PER_MSEC, now_ns);
	run_flows(5);
	run_flows(10);
	expect_shares("down", 10, 1 << 20);
}

/* A flow has several rates, as a command has several kinds of limits, and each has a past of its
 * own. */
static void rates_are_remembered_apart(void **state)
{
	static struct rate others[PASTS - 1];
	static struct line other_lines[PASTS - 1][POLLERS_MAX];

	set_up_flows(100);
	for (unsigned i = 0; i < PASTS - 1; i++)
		rate_init(&others[i], other_lines[i]);
	rate_set(&others[1], 1000000, BURST_MS * NSEC_PER_MSEC, now_ns);
	add_flow(0, 1, 1);
	add_flow(1, 8, 1);
	run_flows(1);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t n[2] = {flows[0].n_served, flows[1].n_served};

		for (unsigned k = 0; k < PASTS - 1; k++)
			line_pay_at_once(&other_lines[k][0], &flows[0].past, 1, now_ns);
		run_flows(0.01);
		for (unsigned k = 0; k < 2; k++)
			flows[k].n_served += n[k];
	}
	assert_in_range(flows[0].n_served, 400, 700);
	assert_in_range(flows[1].n_served, 400, 700);
}

/* A flow leaves its line when its connection ends: the others do not wait for it. */
static void a_flow_that_leaves_holds_none(void **state)
{
	struct flow *gone;

	set_up_flows(1000);
	add_flow(0, 8, 1);
	gone = add_flow(1, 8, 1);
	run_flows(5);
	for (unsigned k = 0; k < gone->depth; k++)
		if (gone->commands[k].is_here)
			line_leave(&lines[1], &gone->commands[k].turn);
	n_flows = 1;
	run_flows(5);
	expect_shares("left alone", 5, 1000);
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
		cmocka_unit_test(depth_buys_nothing),
		cmocka_unit_test(size_buys_nothing),
		cmocka_unit_test(pollers_buy_nothing),
		cmocka_unit_test(a_flow_that_was_away_has_its_share),
		cmocka_unit_test(rate_changes_for_those_in_line),
		cmocka_unit_test(rates_are_remembered_apart),
		cmocka_unit_test(a_flow_that_leaves_holds_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
