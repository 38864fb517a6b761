/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See history.h. A pair takes the place of one value, so a plain Write (or 0) and the pairs that
 * follow from it form a chain, and no other change is between its values. Two things are judged.
 *
 *   within a chain    an operation sees no value older than one known of when it began
 *   between chains    a chain is before another if one of its operations ended before one of the
 *                     other's began; no two are before each other (Gibbons and Korach, 1997)
 *
 * For the second, a chain has a zone, from its first end to its last begin. Zones that go forward
 * do not overlap, and no zone that goes backward is within one that goes forward.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/raw/history.h"

enum {
	TAKEN_MIN = 100, /* less proves nothing */
};

struct zone {
	uint32_t block;
	uint32_t first_end, last_begin; /* UINT32_MAX, 0: no operation */
};

struct judge {
	const struct history *history;
	uint32_t n_ops, n_values;
	uint32_t *position; /* by value: its place in its chain; the first has 0 */
	uint32_t *chain;    /* by value; UINT32_MAX: it did not take place */
	uint32_t *next;	    /* by value: the one that took its place; of 0 see first */
	uint32_t first[HISTORY_PLACES];
	bool *is_seen; /* by value: it did take place */
	uint32_t *by_tick;
	uint32_t *floor;    /* by op: youngest position known of when it began */
	uint32_t *youngest; /* by chain */
	struct zone *zones; /* by chain */
};

static const struct op *op_of(const struct judge *j, uint32_t i)
{
	return &j->history->ops[i];
}

static void judge_init(struct judge *j, const struct history *history, uint32_t n_values)
{
	uint32_t n_ticks = atomic_load(&history->clock);
	uint32_t n_chains = HISTORY_PLACES + n_values;

	*j = (struct judge){
		.history = history, .n_ops = history->n_each * HISTORY_HOSTS, .n_values = n_values};
	j->position = calloc(n_values, sizeof(*j->position));
	j->chain = calloc(n_values, sizeof(*j->chain));
	j->next = calloc(n_values, sizeof(*j->next));
	j->is_seen = calloc(n_values, sizeof(*j->is_seen));
	j->by_tick = calloc(n_ticks + 1, sizeof(*j->by_tick));
	j->floor = calloc(j->n_ops, sizeof(*j->floor));
	j->youngest = calloc(n_chains, sizeof(*j->youngest));
	j->zones = calloc(n_chains, sizeof(*j->zones));
	assert_true(j->position && j->chain && j->next && j->is_seen && j->by_tick && j->floor &&
		    j->youngest && j->zones);
	for (uint32_t i = 0; i < j->n_ops; i++)
		if (op_of(j, i)->end)
			j->by_tick[op_of(j, i)->begin] = j->by_tick[op_of(j, i)->end] = i + 1;
}

static void judge_deinit(struct judge *j)
{
	free(j->position);
	free(j->chain);
	free(j->next);
	free(j->is_seen);
	free(j->by_tick);
	free(j->floor);
	free(j->youngest);
	free(j->zones);
}

/* ---- chains --------------------------------------------------------------------------------- */

static bool takes_place(const struct judge *j, const struct op *op)
{
	return op->outcome == WRITTEN || (op->outcome == UNKNOWN && j->is_seen[op->value]);
}

static void find_seen(struct judge *j)
{
	for (uint32_t i = 0; i < j->n_ops; i++) {
		const struct op *op = op_of(j, i);

		if (op->outcome == SEEN)
			j->is_seen[op->value] = true;
		if (op->outcome == WRITTEN && !op->is_plain)
			j->is_seen[op->old] = true;
	}
}

static void link_pairs(struct judge *j)
{
	for (uint32_t i = 0; i < j->n_ops; i++) {
		const struct op *op = op_of(j, i);
		uint32_t *slot = op->old ? &j->next[op->old] : &j->first[op->block];

		if (op->is_plain || !takes_place(j, op))
			continue;
		assert_int_equal(*slot, 0); /* two took the place of one */
		*slot = op->value;
	}
}

/* Numbers the values of a chain from this one on; returns how many. */
static uint32_t number(struct judge *j, uint32_t chain, uint32_t value, uint32_t position)
{
	uint32_t n = 0;

	for (; value; value = j->next[value], n++) {
		j->chain[value] = chain;
		j->position[value] = position++;
	}
	return n;
}

static void number_values(struct judge *j)
{
	uint32_t n_linked = 0, n_taken = 0;

	for (uint32_t v = 0; v < j->n_values; v++)
		j->chain[v] = UINT32_MAX;
	for (unsigned block = 0; block < HISTORY_BLOCKS; block++)
		n_linked += number(j, block, j->first[block], 1);
	for (uint32_t i = 0; i < j->n_ops; i++) {
		const struct op *op = op_of(j, i);

		if (!takes_place(j, op))
			continue;
		n_taken++;
		if (op->is_plain)
			n_linked += number(j, HISTORY_PLACES + op->value, op->value, 0);
	}
	assert_int_equal(n_linked, n_taken); /* each hangs on 0, or on a Write */
	assert_true(n_taken > TAKEN_MIN);
}

static uint32_t chain_of(const struct judge *j, const struct op *op)
{
	return op->value ? j->chain[op->value] : op->block;
}

/* ---- times ---------------------------------------------------------------------------------- */

/* Whether the operation's value was on its way to its block by then. */
static bool is_from_there(const struct judge *j, const struct op *op, uint32_t tick)
{
	const struct op *writer;

	if (!op->value)
		return true;
	writer = op_of(j, op->value - 1);
	return writer->block == op->block && writer->begin <= tick;
}

/* In the order of the clock. */
static void judge_times(struct judge *j)
{
	uint32_t n_ticks = atomic_load(&j->history->clock);

	for (uint32_t t = 1; t <= n_ticks; t++) {
		uint32_t i = j->by_tick[t] - 1, position, chain;
		const struct op *op = op_of(j, i);

		if (!j->by_tick[t] || (op->outcome != SEEN && op->outcome != WRITTEN))
			continue; /* an operation that was not finished */
		chain = chain_of(j, op);
		assert_int_not_equal(chain, UINT32_MAX); /* it was not written there */
		if (op->begin == t) {
			j->floor[i] = j->youngest[chain];
			continue;
		}
		position = j->position[op->value];
		assert_true(position >= j->floor[i]);
		assert_true(is_from_there(j, op, t));
		if (position > j->youngest[chain])
			j->youngest[chain] = position;
	}
}

static void find_zones(struct judge *j)
{
	for (uint32_t i = 0; i < HISTORY_PLACES + j->n_values; i++)
		j->zones[i] = (struct zone){.block = i, .first_end = UINT32_MAX};
	for (unsigned block = 0; block < HISTORY_BLOCKS; block++)
		j->zones[block].first_end = 0; /* 0 was there before the first operation */
	for (uint32_t i = 0; i < j->n_ops; i++) {
		const struct op *op = op_of(j, i);
		struct zone *zone;

		if (!op->end || (op->outcome != SEEN && !takes_place(j, op)))
			continue;
		zone = &j->zones[chain_of(j, op)];
		zone->block = op->block;
		if (op->begin > zone->last_begin)
			zone->last_begin = op->begin;
		/* A lost one takes place after its begin, at any time. */
		if (op->outcome != UNKNOWN && op->end < zone->first_end)
			zone->first_end = op->end;
	}
}

static uint32_t low(const struct zone *zone)
{
	return zone->first_end < zone->last_begin ? zone->first_end : zone->last_begin;
}

static int compare_zones(const void *a, const void *b)
{
	const struct zone *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return low(x) < low(y) ? -1 : low(x) > low(y);
}

static void judge_zones(struct judge *j)
{
	uint32_t until = 0;

	find_zones(j);
	qsort(j->zones, HISTORY_PLACES + j->n_values, sizeof(*j->zones), compare_zones);
	for (uint32_t i = 0; i < HISTORY_PLACES + j->n_values; i++) {
		const struct zone *zone = &j->zones[i];

		if (i == 0 || zone->block != zone[-1].block)
			until = 0;
		assert_true(zone->first_end >= until);
		if (zone->first_end < zone->last_begin)
			until = zone->last_begin;
	}
}

void history_judge_registers(const struct history *history)
{
	struct judge j;

	judge_init(&j, history, history->n_each * HISTORY_HOSTS + 1);
	find_seen(&j);
	link_pairs(&j);
	number_values(&j);
	judge_times(&j);
	judge_zones(&j);
	judge_deinit(&j);
}

/* ---- generations ---------------------------------------------------------------------------- */

/* The youngest generation that an operation must not be older than. */
static uint32_t generation_floor(const struct judge *j, const struct op *op)
{
	uint32_t read = j->youngest[op->block], held = j->youngest[HISTORY_RESERVATION];

	return op->outcome == WRITTEN && held > read ? held : read;
}

void history_judge_generations(const struct history *history, uint32_t n_values)
{
	uint32_t n_ticks = atomic_load(&history->clock);
	struct judge j;

	judge_init(&j, history, n_values);
	for (uint32_t t = 1; t <= n_ticks; t++) {
		uint32_t i = j.by_tick[t] - 1;
		const struct op *op = op_of(&j, i);

		if (!j.by_tick[t] || (op->outcome != SEEN && op->outcome != WRITTEN))
			continue;
		assert_true(op->value < n_values);
		if (op->begin == t) {
			j.floor[i] = generation_floor(&j, op);
			continue;
		}
		assert_true(op->value >= j.floor[i]);
		if (op->value > j.youngest[op->block])
			j.youngest[op->block] = op->value;
	}
	assert_true(j.youngest[HISTORY_FENCED] > TAKEN_MIN);
	judge_deinit(&j);
}
