/* SPDX-License-Identifier: BSD-3-Clause */
/* See balance.h. */
#include "nbd_bridge/control/balance.h"

#include "base/bits.h"

static bool is_used(const struct balance_loop *loop)
{
	return loop->n_conns > 0;
}

static unsigned n_used(const struct balance_loop loops[], unsigned n)
{
	unsigned n_loops = 0;

	for (unsigned i = 0; i < n; i++)
		n_loops += is_used(&loops[i]);
	return n_loops;
}

/* The busiest of the loops that connections share; n: none is busy. */
static unsigned find_busy(const struct balance_loop loops[], unsigned n)
{
	unsigned found = n;

	for (unsigned i = 0; i < n; i++)
		if (loops[i].n_conns > 1 && loops[i].load >= BALANCE_BUSY &&
		    (found == n || loops[i].load > loops[found].load))
			found = i;
	return found;
}

/* Among those with connections, or those without, the loop with the least to do; n: none. */
static unsigned find_least(const struct balance_loop loops[], unsigned n, bool with_conns)
{
	unsigned found = n;

	for (unsigned i = 0; i < n; i++)
		if (is_used(&loops[i]) == with_conns &&
		    (found == n || loops[i].load < loops[found].load))
			found = i;
	return found;
}

static unsigned find_most(const struct balance_loop loops[], unsigned n)
{
	unsigned found = n;

	for (unsigned i = 0; i < n; i++)
		if (is_used(&loops[i]) && (found == n || loops[i].load > loops[found].load))
			found = i;
	return found;
}

/* A loop that runs and has less to do, or, if a CPU is free, another one; from: none. */
static unsigned find_help(const struct balance_loop loops[], unsigned n, unsigned n_max,
			  unsigned idle, unsigned from)
{
	unsigned least = find_least(loops, n, true), unused = find_least(loops, n, false);

	if (loops[least].load + BALANCE_LESS <= loops[from].load)
		return least;
	if (idle < BALANCE_FREE)
		return from;
	return unused < n || n < n_max ? unused : from;
}

static bool is_enough(const struct balance_loop loops[], unsigned n)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += loops[i].load;
	return n_used(loops, n) > 1 && sum < BALANCE_ENOUGH;
}

struct balance_move balance_look(struct balance *balance, const struct balance_loop loops[],
				 unsigned n, unsigned n_max, unsigned idle)
{
	struct balance_move move = {.verdict = BALANCE_KEEP};
	unsigned from = find_busy(loops, n), to = from;

	if (from < n)
		to = find_help(loops, n, n_max, idle, from);
	balance->n_busy = to != from ? balance->n_busy + 1 : 0;
	balance->n_enough = is_enough(loops, n) ? balance->n_enough + 1 : 0;
	if (balance->n_busy >= BALANCE_BUSY_LOOKS)
		move = (struct balance_move){BALANCE_SPREAD, from, to};
	else if (balance->n_enough >= BALANCE_ENOUGH_LOOKS)
		move = (struct balance_move){BALANCE_GATHER, find_least(loops, n, true),
					     find_most(loops, n)};
	if (move.verdict != BALANCE_KEEP)
		*balance = (struct balance){0};
	return move;
}

bool balance_must_look(const struct balance_loop loops[], unsigned n)
{
	return find_busy(loops, n) < n || n_used(loops, n) > 1;
}
