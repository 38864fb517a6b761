/* SPDX-License-Identifier: BSD-3-Clause */
/* target/store/whole.c: marks of blocks in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target/store/whole.h"

enum {
	PIECES = 4,
	BYTES = PIECES * WHOLE_BYTES,
	APART = WHOLE_MARKS * WHOLE_BYTES, /* distance of bytes that share a mark */
};

static char memory[BYTES], from[BYTES], to[BYTES];

static int start(void **state)
{
	*state = whole_new();
	memset(memory, 'm', BYTES);
	memset(from, 'f', BYTES);
	memset(to, 't', BYTES);
	return *state ? 0 : -1;
}

static int stop(void **state)
{
	const struct whole *whole = *state;

	for (unsigned i = 0; i < WHOLE_MARKS; i++)
		assert_int_equal(atomic_load(&whole->marks[i]), 0);
	whole_free(*state);
	return 0;
}

static void copies_what_is_asked_for(void **state)
{
	assert_int_equal(whole_write(*state, memory, 512, from, 5000), 5000);
	assert_memory_equal(memory + 512, from, 5000);
	assert_int_equal(memory[511], 'm');
	assert_int_equal(memory[5512], 'm');
	assert_int_equal(whole_read(*state, memory, 512, to, 5000), 5000);
	assert_memory_equal(to, from, 5000);
	assert_int_equal(to[5000], 't');
	assert_int_equal(whole_write(*state, memory, 0, NULL, BYTES), BYTES);
	assert_true(memory[0] == 0 && !memcmp(memory, memory + 1, BYTES - 1));
}

/* The writer copies up to the held piece, and the rest after it is given back. */
static void a_writer_stops_at_a_device(void **state)
{
	whole_hold hold;

	assert_true(whole_is_one(2 * WHOLE_BYTES, WHOLE_BYTES));
	assert_true(whole_take_one(*state, 2 * WHOLE_BYTES, &hold));
	assert_int_equal(whole_write(*state, memory, 0, from, BYTES), 2 * WHOLE_BYTES);
	assert_int_equal(memory[2 * WHOLE_BYTES], 'm');
	assert_int_equal(whole_read(*state, memory, 0, to, BYTES), BYTES);
	whole_give_one(hold);
	assert_int_equal(whole_write(*state, memory, 0, from, BYTES), BYTES);
}

static void a_wanted_piece_is_not_for_devices(void **state)
{
	whole_hold hold;

	whole_want(*state, WHOLE_BYTES);
	whole_want(*state, WHOLE_BYTES);
	assert_false(whole_take_one(*state, WHOLE_BYTES, &hold));
	assert_int_equal(hold, 0);
	assert_false(whole_take(*state, 0, BYTES, &hold));
	assert_int_equal(hold, 0);
	whole_want_no_more(*state, WHOLE_BYTES);
	assert_false(whole_take_one(*state, WHOLE_BYTES, &hold));
	assert_int_equal(whole_read(*state, memory, 0, to, BYTES), BYTES);
	assert_int_equal(whole_write(*state, memory, 0, from, BYTES), BYTES);
	whole_want_no_more(*state, WHOLE_BYTES);
	assert_true(whole_take_one(*state, WHOLE_BYTES, &hold));
	whole_give(hold);
}

/* Unaligned blocks, also across the last mark to the first. */
static void many_marks_are_held_together(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t n_bytes;
		unsigned n;
	} cases[] = {
		{3584, 1024, 2},
		{0, 16 * 1024 * 1024, 4096},
		{APART - WHOLE_BYTES, 3 * WHOLE_BYTES, 3},
		{3 * (uint64_t)APART - 512, 1024, 2},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct whole *whole = *state;
		unsigned n = 0;
		whole_hold hold;

		assert_false(whole_is_one(cases[i].offset, cases[i].n_bytes));
		assert_true(whole_take(*state, cases[i].offset, cases[i].n_bytes, &hold));
		assert_true(whole_is_many(hold));
		for (unsigned m = 0; m < WHOLE_MARKS; m++)
			n += atomic_load(&whole->marks[m]) == 1;
		assert_int_equal(n, cases[i].n);
		whole_give(hold);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(copies_what_is_asked_for, start, stop),
		cmocka_unit_test_setup_teardown(a_writer_stops_at_a_device, start, stop),
		cmocka_unit_test_setup_teardown(a_wanted_piece_is_not_for_devices, start, stop),
		cmocka_unit_test_setup_teardown(many_marks_are_held_together, start, stop),
	};

	return cmocka_run_group_tests_name("whole", tests, NULL, NULL);
}
