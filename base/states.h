/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Table-driven state machines. A table names each state, its step function and the states
 * it may go to; every move is checked against the table, so an impossible move stops the
 * program where it happens instead of corrupting data later. Where a peer drives the machine
 * the move is tried: what is impossible is not done, and its owner ends what belongs to the peer.
 *
 * States come in two kinds: doing (has a step, which returns the next state) and waiting
 * (no step: someone else holds the object, and a completion re-enters by naming the next
 * state).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"

#define STATE_TO(s) (1ULL << (s))

struct state_rule {
	const char *name;
	uint64_t may_go_to; /* bit mask of STATE_TO() */
};

__attribute__((noreturn, cold)) void
states_bad_move(const char *machine, const struct state_rule *from, const struct state_rule *to);

/* Moves *state to next, or stops the program if rules[] forbids it. */
static inline void states_move(const char *machine, const struct state_rule *rules, unsigned *state,
			       unsigned next)
{
	if (!(rules[*state].may_go_to & STATE_TO(next)))
		states_bad_move(machine, &rules[*state], &rules[next]);
	*state = next;
}

/* The same, but false, and nothing is moved, if rules[] forbids it. */
static inline bool states_try(const struct state_rule *rules, unsigned *state, unsigned next)
{
	if (__builtin_expect(!(rules[*state].may_go_to & STATE_TO(next)), 0))
		return false;
	*state = next;
	return true;
}
