/* SPDX-License-Identifier: BSD-3-Clause */
/* Fair shares of scarce resources: lines in which queues take turns, and shares of a poller's
 * buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/bits.h"
#include "target/engine/poller/buffer.h"

/* ---- lines ---------------------------------------------------------------------------------- */

struct waiter {
	struct fair_entry entry;
	char flow;
	unsigned number;
};

static const char *flow_names = "abc";

static void add(struct fair *fair, struct waiter *w, char flow, unsigned number)
{
	w->flow = flow;
	w->number = number;
	fair_add(fair, &w->entry, &flow_names[flow - 'a']);
}

/* Takes the first entry, in the way of the callers that serve the line. */
static struct waiter *take(struct fair *fair)
{
	struct fair_entry *first = fair_first(fair);

	fair_rotate(fair);
	fair_remove(first);
	return container_of(first, struct waiter, entry);
}

static void flows_take_turns(void **state)
{
	static const char order[] = "a1b1c1a2b2a3a4a5";
	struct waiter waiters[8];
	struct fair fair;
	unsigned n = 0;

	fair_init(&fair);
	assert_null(fair_first(&fair));
	for (unsigned i = 1; i <= 5; i++)
		add(&fair, &waiters[n++], 'a', i);
	for (unsigned i = 1; i <= 2; i++)
		add(&fair, &waiters[n++], 'b', i);
	add(&fair, &waiters[n++], 'c', 1);
	assert_int_equal(fair_n_flows(&fair), 3);
	for (unsigned i = 0; i < 8; i++) {
		struct waiter *w = take(&fair);

		assert_int_equal(w->flow, order[2 * i]);
		assert_int_equal(w->number, order[2 * i + 1] - '0');
	}
	assert_true(fair_is_empty(&fair));
}

/* An entry that is aborted at any place leaves the others in their order. */
static void any_may_leave(void **state)
{
	struct waiter waiters[6];
	struct fair fair;

	fair_init(&fair);
	for (unsigned i = 0; i < 6; i++)
		add(&fair, &waiters[i], i % 2 ? 'b' : 'a', i);
	fair_remove(&waiters[0].entry); /* the first of its flow */
	fair_remove(&waiters[3].entry); /* in the middle */
	assert_true(fair_has(&fair, &flow_names[0]));
	assert_int_equal(take(&fair)->number, 2);
	assert_int_equal(take(&fair)->number, 1);
	fair_remove(&waiters[4].entry); /* the only one */
	assert_false(fair_has(&fair, &flow_names[0]));
	assert_int_equal(take(&fair)->number, 5);
	assert_true(fair_is_empty(&fair));
}

/* ---- shares --------------------------------------------------------------------------------- */

enum {
	ARENA_BYTES = 8 * 1024 * 1024,
	BLOCK_MAX = 1024 * 1024,
	N_BUFFERS = ARENA_BYTES / BUFFER_UNIT,
};

static struct arena arena;
static struct buffer buffers[N_BUFFERS];
static unsigned n_buffers;

static int start(void **state)
{
	static _Alignas(4096) char memory[ARENA_BYTES];

	n_buffers = 0;
	return arena_init(&arena, memory, sizeof(memory), BLOCK_MAX);
}

static int stop(void **state)
{
	while (n_buffers)
		assert_false(buffer_put(&buffers[--n_buffers]));
	assert_int_equal(arena.buddy.n_free_bytes, ARENA_BYTES);
	arena_deinit(&arena);
	return 0;
}

static enum buffer_result take_one(size_t n_bytes, size_t *queue, size_t *ns, size_t *host)
{
	size_t *held[BUFFER_HOLDERS] = {queue, ns, host};
	enum buffer_result r = buffer_take_share(&arena, n_bytes, held, 50, &buffers[n_buffers]);

	n_buffers += r == BUFFER_TAKEN;
	return r;
}

/* Any number of queues that never give back leave a part for the next. */
static void hogs_leave_something(void **state)
{
	size_t held[20] = {0}, small = 0;

	for (unsigned i = 0; i < 20; i++) {
		while (take_one(BUFFER_UNIT, &held[i], NULL, NULL) == BUFFER_TAKEN)
			;
		assert_int_equal(take_one(BUFFER_UNIT, &held[i], NULL, NULL),
				 i < 5			    ? BUFFER_OVER_SHARE
				 : arena.buddy.n_free_bytes ? BUFFER_OVER_SHARE
							    : BUFFER_NONE);
		if (i == 4)
			assert_int_equal(take_one(BUFFER_UNIT, &small, NULL, NULL), BUFFER_TAKEN);
	}
	assert_in_range(held[0], ARENA_BYTES * 79 / 100, ARENA_BYTES * 80 / 100);
	assert_in_range(held[1], ARENA_BYTES * 15 / 100, ARENA_BYTES * 17 / 100);
}

/* The smallest of the three shares is the limit, and each share is given back separately. */
static void each_holder_is_charged(void **state)
{
	size_t queue = 0, ns = 0, host = 0;

	while (take_one(BLOCK_MAX, &queue, &ns, &host) == BUFFER_TAKEN)
		;
	assert_int_equal(host, ARENA_BYTES / 2);
	assert_int_equal(queue, host);
	assert_int_equal(ns, host);
	buffer_discharge(&buffers[0], HOLDER_NAMESPACE);
	assert_int_equal(ns, host - BLOCK_MAX);
	buffer_discharge(&buffers[0], HOLDER_NAMESPACE);
	assert_int_equal(ns, host - BLOCK_MAX);
	stop(NULL);
	assert_int_equal(queue + ns + host, 0);
	start(NULL);
}

/* A holder without buffers always gets one if there is one: no share is too small for one
 * command. */
static void first_is_always_granted(void **state)
{
	size_t mine = 0, theirs = 0;

	while (take_one(BLOCK_MAX, NULL, &theirs, NULL) == BUFFER_TAKEN)
		;
	assert_int_equal(take_one(BLOCK_MAX, NULL, NULL, &mine), BUFFER_TAKEN);
	assert_int_equal(take_one(BLOCK_MAX, NULL, NULL, &mine), BUFFER_OVER_SHARE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flows_take_turns),
		cmocka_unit_test(any_may_leave),
		cmocka_unit_test_setup_teardown(hogs_leave_something, start, stop),
		cmocka_unit_test_setup_teardown(each_holder_is_charged, start, stop),
		cmocka_unit_test_setup_teardown(first_is_always_granted, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
