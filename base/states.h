/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Table-driven state machines. A table lists, for each state, its name and the states that may
 * follow. Each move is checked against the table, so a forbidden move stops the program at once
 * instead of corrupting data later. Where a peer drives the machine, use states_try: it refuses a
 * forbidden move, and the owner disconnects that peer. The thread that owns *state calls.
 *
 * There are two kinds of states: doing (a step function runs and returns the next state) and
 * waiting (another part holds the object, and its completion moves to the next state).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/check.h"

#define STATE_TO(s) (1ULL << (s))

struct state_rule {
	const char *name;
	uint64_t may_go_to; /* bit mask of STATE_TO() */
};

/* Logs both names and aborts the process. */
__attribute__((noreturn)) COLD void
states_bad_move(const char *machine, const struct state_rule *from, const struct state_rule *to);

/* Moves *state to next, or stops the program if rules[] forbids it. *state is a field of the
 * machine's enum, whose type is unsigned to the compiler. */
static inline void states_move(const char *machine, const struct state_rule *rules, unsigned *state,
			       unsigned next)
{
	if (!(rules[*state].may_go_to & STATE_TO(next)))
		states_bad_move(machine, &rules[*state], &rules[next]);
	*state = next;
}

/* The same, but returns false and moves nothing if rules[] forbids it. */
static inline bool states_try(const struct state_rule *rules, unsigned *state, unsigned next)
{
	if (UNLIKELY(!(rules[*state].may_go_to & STATE_TO(next))))
		return false;
	*state = next;
	return true;
}
