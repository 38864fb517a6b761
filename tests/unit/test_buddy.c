/* SPDX-License-Identifier: BSD-3-Clause */
/* The buddy allocator. The random test decides: it compares with a plain map of the taken units. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/buddy.h"

enum {
	UNIT = 4096
};

static void test_whole_arena(void **state)
{
	struct buddy b;
	size_t at;

	assert_int_equal(buddy_init(&b, 64 * UNIT, UNIT, 64 * UNIT), 0);
	assert_int_equal(b.n_free_bytes, 64 * UNIT);
	assert_int_equal(buddy_take(&b, 64 * UNIT, &at), 0);
	assert_int_equal(at, 0);
	assert_int_equal(b.n_free_bytes, 0);
	assert_int_equal(buddy_take(&b, 1, &at), -ENOBUFS);
	buddy_give(&b, at);
	assert_int_equal(buddy_take(&b, 33 * UNIT, &at), 0); /* rounded up to 64 */
	assert_int_equal(buddy_take(&b, 1, &at), -ENOBUFS);
	buddy_deinit(&b);
}

static void test_sizes_are_rounded(void **state)
{
	struct buddy b;
	size_t at;

	assert_int_equal(buddy_init(&b, 16 * UNIT + 5, UNIT, 3 * UNIT), 0);
	assert_int_equal(b.n_free_bytes, 16 * UNIT);
	assert_int_equal(buddy_take(&b, 1, &at), 0);
	assert_int_equal(b.n_free_bytes, 15 * UNIT);
	assert_int_equal(buddy_take(&b, UNIT + 1, &at), 0);
	assert_int_equal(at % (2 * UNIT), 0);
	assert_int_equal(b.n_free_bytes, 13 * UNIT);
	assert_int_equal(buddy_take(&b, 3 * UNIT, &at), 0);
	assert_int_equal(at % (4 * UNIT), 0);
	assert_int_equal(b.n_free_bytes, 9 * UNIT);
	buddy_deinit(&b);
}

/* 7 units are 4 + 2 + 1: an arena whose size is no power of 2 loses nothing. */
static void test_odd_arena(void **state)
{
	struct buddy b;
	size_t at[7], big;

	assert_int_equal(buddy_init(&b, 7 * UNIT, UNIT, 8 * UNIT), 0);
	assert_int_equal(buddy_take(&b, 8 * UNIT, &big), -ENOBUFS);
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(buddy_take(&b, UNIT, &at[i]), 0);
	assert_int_equal(buddy_take(&b, 1, &big), -ENOBUFS);
	for (unsigned i = 0; i < 7; i++)
		buddy_give(&b, at[i]);
	assert_int_equal(buddy_take(&b, 4 * UNIT, &big), 0);
	assert_int_equal(big, 0);
	assert_int_equal(buddy_take(&b, 2 * UNIT, &big), 0);
	assert_int_equal(buddy_take(&b, UNIT, &big), 0);
	assert_int_equal(b.n_free_bytes, 0);
	buddy_deinit(&b);
}

/* A request of the same size gets the same block, without splitting; another size merges the
 * cached blocks. */
static void test_warm_blocks(void **state)
{
	struct buddy b;
	size_t at[128], again;

	assert_int_equal(buddy_init(&b, 128 * UNIT, UNIT, 128 * UNIT), 0);
	for (unsigned i = 0; i < 128; i++)
		assert_int_equal(buddy_take(&b, UNIT, &at[i]), 0);
	buddy_give(&b, at[5]);
	assert_int_equal(buddy_take(&b, UNIT, &again), 0);
	assert_int_equal(again, at[5]);
	for (unsigned i = 0; i < 128; i++)
		buddy_give(&b, at[i]);
	assert_int_equal(b.n_free_bytes, 128 * UNIT);
	assert_int_equal(buddy_take(&b, 128 * UNIT, &again), 0);
	assert_int_equal(again, 0);
	assert_int_equal(buddy_take(&b, UNIT, &again), -ENOBUFS);
	buddy_deinit(&b);
}

static void test_empty_arena(void **state)
{
	struct buddy b = {0};
	size_t at;

	buddy_deinit(&b);
	assert_int_equal(buddy_init(&b, UNIT - 1, UNIT, UNIT), 0);
	assert_int_equal(buddy_take(&b, 1, &at), -ENOBUFS);
	buddy_deinit(&b);
	assert_int_equal(buddy_init(&b, SIZE_MAX, 1, 1), -ENOMEM);
}

struct taken {
	size_t offset, n_bytes;
};

static void mark_taken(uint8_t *map, struct taken t, uint8_t from, uint8_t to)
{
	for (size_t i = t.offset / UNIT; i < (t.offset + t.n_bytes + UNIT - 1) / UNIT; i++) {
		assert_int_equal(map[i], from);
		map[i] = to;
	}
}

/* Half of the arena is closed: it is never taken, and comes back whole. */
static void test_closed_range(void **state)
{
	struct buddy b;
	size_t offset, last;

	assert_int_equal(buddy_init(&b, 23 * UNIT, UNIT, 8 * UNIT), 0);
	assert_true(buddy_close(&b, 8 * UNIT, 23 * UNIT));
	assert_int_equal(b.n_free_bytes, 8 * UNIT);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(buddy_take(&b, UNIT, &offset), 0);
		assert_int_equal(offset, i * UNIT);
	}
	assert_int_equal(buddy_take(&b, 1, &offset), -ENOBUFS);
	buddy_open(&b, 8 * UNIT, 23 * UNIT);
	assert_int_equal(b.n_free_bytes, 15 * UNIT);
	assert_int_equal(buddy_take(&b, 8 * UNIT, &offset), 0);
	assert_int_equal(offset, 8 * UNIT);
	assert_int_equal(buddy_take(&b, 1, &last), 0);
	assert_false(buddy_close(&b, 16 * UNIT, 23 * UNIT)); /* one of its units is taken */
	assert_int_equal(b.n_free_bytes, 6 * UNIT);
	buddy_give(&b, last);
	assert_true(buddy_close(&b, 16 * UNIT, 23 * UNIT)); /* also from among the warm blocks */
	assert_int_equal(buddy_take(&b, 1, &last), -ENOBUFS);
	buddy_give(&b, offset);
	assert_int_equal(b.n_free_bytes, 8 * UNIT);
	buddy_deinit(&b);
}

static void test_random(void **state)
{
	enum {
		N_UNITS = 1000,
		MAX_BLOCK = 64 * UNIT,
		N_STEPS = 200000
	};
	static uint8_t map[N_UNITS];
	static struct taken taken[N_UNITS];
	unsigned n_taken = 0, n_refused = 0;
	struct buddy b;

	srandom(1);
	assert_int_equal(buddy_init(&b, N_UNITS * UNIT, UNIT, MAX_BLOCK), 0);
	for (unsigned step = 0; step < N_STEPS; step++) {
		struct taken t = {.n_bytes = (size_t)random() % MAX_BLOCK};

		t.n_bytes = (t.n_bytes >> random() % 7) + 1;
		/* Swings between nearly full and nearly empty. */
		if (random() % 100 < (step / 2000 % 2 ? 40 : 60)) {
			if (buddy_take(&b, t.n_bytes, &t.offset) < 0) {
				n_refused++;
				continue;
			}
			assert_int_equal(
				t.offset % (UNIT << log2_ceil((t.n_bytes + UNIT - 1) / UNIT)), 0);
			assert_true(t.offset + t.n_bytes <= N_UNITS * UNIT);
			mark_taken(map, t, 0, 1);
			taken[n_taken++] = t;
		} else if (n_taken) {
			unsigned i = (unsigned)random() % n_taken;

			mark_taken(map, taken[i], 1, 0);
			buddy_give(&b, taken[i].offset);
			taken[i] = taken[--n_taken];
		}
	}
	assert_true(n_refused > 100);
	while (n_taken)
		buddy_give(&b, taken[--n_taken].offset);
	assert_int_equal(b.n_free_bytes, N_UNITS * UNIT);
	/* Everything has merged again: 15 blocks of 64 units. */
	for (unsigned i = 0; i < N_UNITS / 64; i++)
		assert_int_equal(buddy_take(&b, MAX_BLOCK, &taken[i].offset), 0);
	buddy_deinit(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_arena), cmocka_unit_test(test_sizes_are_rounded),
		cmocka_unit_test(test_odd_arena),   cmocka_unit_test(test_warm_blocks),
		cmocka_unit_test(test_empty_arena), cmocka_unit_test(test_closed_range),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
