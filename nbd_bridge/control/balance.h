/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many loops pay: decides, from what was measured between two looks, whether connections move
 * to another loop, or back. Pure. Any thread, one at a time.
 *
 *   busy     a loop that works for more than three quarters of the time. Its clients wait for
 *            each other then, and another loop shortens that wait.
 *   free     a CPU that stood idle for three quarters of the time. Without one, another loop
 *            would only take turns with those that are there, and with their clients.
 *   enough   the work of all loops together fills less than half of one: one loop suffices.
 *
 * A busy loop is helped after two looks. That one loop suffices is believed after four, so
 * connections do not move to and fro; between both thresholds nothing moves.
 */
#pragma once

#include <stdbool.h>

enum {
	BALANCE_BUSY = 750,   /* thousandths of the time of a loop */
	BALANCE_FREE = 750,   /* of a CPU */
	BALANCE_ENOUGH = 500, /* the sum over the loops */
	BALANCE_LESS = 250,   /* a loop that runs helps if it has that much less to do */
	BALANCE_BUSY_LOOKS = 2,
	BALANCE_ENOUGH_LOOKS = 4,
};

/* Between two looks. */
struct balance_loop {
	unsigned load; /* thousandths of the time, without polling */
	unsigned n_conns;
};

/* Zero it. */
struct balance {
	unsigned n_busy, n_enough; /* looks that said so, one after the other */
};

enum balance_verdict {
	BALANCE_KEEP,
	BALANCE_SPREAD, /* some connections of `from` move to `to` */
	BALANCE_GATHER, /* all do */
};

struct balance_move {
	enum balance_verdict verdict;
	unsigned from, to; /* indices; to is n for a loop that has yet to be made */
};

/* One look at n loops, of which there may be n_max. idle: thousandths of a CPU. */
struct balance_move balance_look(struct balance *balance, const struct balance_loop loops[],
				 unsigned n, unsigned n_max, unsigned idle);
/* Whether another look can lead to a move, without a loop that becomes busy first. */
bool balance_must_look(const struct balance_loop loops[], unsigned n);
