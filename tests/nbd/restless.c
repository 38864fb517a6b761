/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In place of nbd_bridge/control/balance.c: connections move at each look, whatever the load is, to
 * a worker chosen at random, as long as there are two. Sometimes all of a worker move, sometimes
 * those with the fewer requests.
 */
#include <stdlib.h>

#include "nbd_bridge/control/balance.h"

static unsigned choose_used(const struct balance_loop loops[], unsigned n)
{
	unsigned at = (unsigned)rand() % n;

	while (!loops[at].n_conns)
		at = (at + 1) % n;
	return at;
}

bool balance_must_look(const struct balance_loop loops[], unsigned n)
{
	unsigned n_conns = 0;

	for (unsigned i = 0; i < n; i++)
		n_conns += loops[i].n_conns;
	return n_conns > 1;
}

/* n_max counts the CPUs that there are; two workers do on one CPU, too. */
struct balance_move balance_look(struct balance *balance, const struct balance_loop loops[],
				 unsigned n, unsigned n_max, unsigned idle)
{
	struct balance_move move = {.verdict = BALANCE_KEEP};

	if (!balance_must_look(loops, n))
		return move;
	move.from = choose_used(loops, n);
	move.to = n < 3 ? n : (move.from + 1 + (unsigned)rand() % (n - 1)) % n;
	move.verdict = n > 1 && rand() % 2 ? BALANCE_SPREAD : BALANCE_GATHER;
	return move;
}
