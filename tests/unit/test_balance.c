/* SPDX-License-Identifier: BSD-3-Clause */
/* When connections move to another loop: nbd_bridge/control/balance.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/bits.h"
#include "nbd_bridge/control/balance.h"

enum {
	N_MAX = 4,
	A_CPU = 1000,
	LOOKS = 10,
};

/* The last of some looks that all see the same; stops at the first move. */
static struct balance_move look(const struct balance_loop loops[], unsigned n, unsigned idle,
				unsigned *ret_looks)
{
	struct balance balance = {0};
	struct balance_move move = {.verdict = BALANCE_KEEP};

	for (*ret_looks = 0; *ret_looks < LOOKS && move.verdict == BALANCE_KEEP; ++*ret_looks)
		move = balance_look(&balance, loops, n, N_MAX, idle);
	return move;
}

static void expect_keep(const struct balance_loop loops[], unsigned n, unsigned idle)
{
	unsigned n_looks;

	assert_int_equal(look(loops, n, idle, &n_looks).verdict, BALANCE_KEEP);
}

static void expect_move(const struct balance_loop loops[], unsigned n, unsigned idle,
			struct balance_move wanted, unsigned looks)
{
	unsigned n_looks;
	struct balance_move move = look(loops, n, idle, &n_looks);

	assert_int_equal(move.verdict, wanted.verdict);
	assert_int_equal(move.from, wanted.from);
	assert_int_equal(move.to, wanted.to);
	assert_int_equal(n_looks, looks);
}

static void one_loop_suffices(void **state)
{
	const struct balance_loop little[] = {{100, 16}}, much[] = {{BALANCE_BUSY - 1, 16}};

	expect_keep(little, 1, A_CPU);
	expect_keep(much, 1, A_CPU);
	assert_false(balance_must_look(much, 1));
}

static void busy_loop_is_helped_on_a_free_cpu(void **state)
{
	const struct balance_loop busy[] = {{900, 16}};

	assert_true(balance_must_look(busy, 1));
	expect_keep(busy, 1, BALANCE_FREE - 1);
	expect_move(busy, 1, BALANCE_FREE, (struct balance_move){BALANCE_SPREAD, 0, 1}, 2);
}

static void one_connection_cannot_be_helped(void **state)
{
	const struct balance_loop busy[] = {{1000, 1}};

	expect_keep(busy, 1, A_CPU);
	assert_false(balance_must_look(busy, 1));
}

static void unused_loop_comes_before_a_new_one(void **state)
{
	const struct balance_loop loops[] = {{900, 3}, {0, 0}};

	expect_move(loops, 2, A_CPU, (struct balance_move){BALANCE_SPREAD, 0, 1}, 2);
	expect_keep(loops, 2, 0);
}

/* It has a CPU already. */
static void loop_that_runs_helps_without_a_free_cpu(void **state)
{
	const struct balance_loop loops[] = {{1000, 5}, {700, 1}}, close[] = {{900, 5}, {700, 1}};

	expect_move(loops, 2, 0, (struct balance_move){BALANCE_SPREAD, 0, 1}, 2);
	expect_keep(close, 2, 0);
}

static void no_more_loops_than_there_may_be(void **state)
{
	const struct balance_loop loops[N_MAX] = {{900, 2}, {900, 2}, {900, 2}, {900, 2}};

	expect_keep(loops, N_MAX, A_CPU);
}

static void little_work_is_gathered_late(void **state)
{
	const struct balance_loop loops[] = {{100, 2}, {300, 4}}, more[] = {{100, 2}, {400, 4}};

	expect_move(loops, 2, A_CPU, (struct balance_move){BALANCE_GATHER, 0, 1}, 4);
	expect_keep(more, 2, A_CPU);
	assert_true(balance_must_look(more, 2));
}

static void what_changes_begins_anew(void **state)
{
	const struct balance_loop busy[] = {{900, 4}}, calm[] = {{600, 4}};
	struct balance balance = {0};

	for (unsigned i = 0; i < LOOKS; i++)
		assert_int_equal(
			balance_look(&balance, i % 2 ? calm : busy, 1, N_MAX, A_CPU).verdict,
			BALANCE_KEEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_loop_suffices),
		cmocka_unit_test(busy_loop_is_helped_on_a_free_cpu),
		cmocka_unit_test(one_connection_cannot_be_helped),
		cmocka_unit_test(unused_loop_comes_before_a_new_one),
		cmocka_unit_test(loop_that_runs_helps_without_a_free_cpu),
		cmocka_unit_test(no_more_loops_than_there_may_be),
		cmocka_unit_test(little_work_is_gathered_late),
		cmocka_unit_test(what_changes_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
