/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The polling policy of a loop: how long it polls before it sleeps. Pure: time is an argument. The
 * owner is a loop (loop.c), and all calls come from its thread. polling.h has the constants.
 *
 * Why poll. A sleeping loop wakes 10 to 50 us late, and the thread that wakes it pays a system
 * call. A polling loop starts at once, but keeps a CPU from other threads. So the policy weighs
 * pauses: a pause is the time from the first poll that finds nothing to the next one that finds an
 * item, such as a completion or a message.
 *
 * How long. Each loop polls for spin_ns before it sleeps. It polls for the long limit (25 times
 * spin_ns, 500 us at most) while the mean pause is at most half of that: pauses in which a disk
 * works, or a host prepares its next command.
 *
 * Trial. A sleeping loop measures pauses that its own wake-up has made longer, and so has the
 * wake-up of its peer, which sleeps for the same reason. Both asleep and both polling are
 * therefore stable. To get from the first to the second, a loop whose mean pause is within the
 * long limit polls for the long limit as a trial. One pause above half of the limit ends the
 * trial.
 *
 * Crowd. Polling is free while no other thread wants the CPU. When crowd.h finds that others do,
 * the verdict holds for 800 ms, and the loop's load decides. A loop that receives several items at
 * once, or does long work (spin_ns) per burst, sleeps without polling: others run meanwhile, more
 * items come together, and each costs less. A loop that receives one short item at a time polls
 * on, since its peer waits for nothing but its wake-up, but for 5 times spin_ns at most: the peer
 * may need this very CPU.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/polling.h"

#define PATIENCE_ENDLESS UINT64_MAX /* as spin_ns: never sleep */

struct patience {
	/* Thread: the owner's */
	uint64_t spin_ns;	   /* 0: sleep after the first poll that finds nothing */
	uint64_t since_ns;	   /* when the current pause began; 0: there is none */
	uint64_t pause_ns;	   /* mean pause */
	bool is_long;		   /* polls for the long limit, maybe as a trial */
	uint64_t found_ns;	   /* when the last pause ended */
	uint64_t work_ns;	   /* mean time from the end of a pause to the next pause */
	unsigned n_found;	   /* items since found_ns */
	unsigned n_at_once;	   /* largest recent burst, in PATIENCE_UNIT */
	uint64_t looked_ns;	   /* the last look for a crowd */
	uint64_t crowded_until_ns; /* end of the last verdict "crowd"; no looks before it */
};

static inline void patience_init(struct patience *p, uint64_t spin_ns)
{
	*p = (struct patience){.spin_ns = spin_ns, .pause_ns = PATIENCE_PAUSE_MAX_NS};
}

static inline uint64_t patience_mean(uint64_t mean, uint64_t value)
{
	return (mean * (PATIENCE_WEIGHT - 1) + value) / PATIENCE_WEIGHT;
}

/* Whether the owner shall now call crowd_is_here and pass the result to patience_looked. */
static inline bool patience_must_look(const struct patience *p, uint64_t now_ns)
{
	return p->spin_ns && p->spin_ns != PATIENCE_ENDLESS && now_ns >= p->crowded_until_ns &&
	       now_ns - p->looked_ns >= PATIENCE_LOOK_NS;
}

static inline void patience_looked(struct patience *p, uint64_t now_ns, bool is_crowded)
{
	p->looked_ns = now_ns;
	if (is_crowded)
		p->crowded_until_ns = now_ns + PATIENCE_CROWDED_NS;
}

static inline void patience_begin_pause(struct patience *p, uint64_t now_ns)
{
	p->since_ns = now_ns;
	p->work_ns = patience_mean(p->work_ns,
				   MIN(now_ns - p->found_ns, PATIENCE_WORK_MAX * p->spin_ns));
	p->n_at_once = MAX(p->n_found * PATIENCE_UNIT,
			   p->n_at_once - p->n_at_once / PATIENCE_FORGETS);
	p->n_found = 0;
}

static inline uint64_t patience_long_ns(const struct patience *p)
{
	return MIN(PATIENCE_LONG * p->spin_ns, (uint64_t)PATIENCE_LONG_NS);
}

/* At the end of a pause: starts or ends polling for the long limit. */
static inline void patience_judge(struct patience *p)
{
	uint64_t long_ns = patience_long_ns(p);

	if (p->is_long && p->pause_ns > long_ns / 2) {
		p->is_long = false;
		p->pause_ns = PATIENCE_PAUSE_MAX_NS; /* puts off the next trial */
	} else if (!p->is_long && p->pause_ns <= long_ns) {
		p->is_long = true;
		p->pause_ns = long_ns / 2; /* a trial: one pause above this ends it */
	}
}

/* In a crowd: whether the loop sleeps without polling. */
static inline bool patience_yields(const struct patience *p)
{
	return p->n_at_once >= PATIENCE_SEVERAL * PATIENCE_UNIT || p->work_ns >= p->spin_ns;
}

/* How long to poll, in the pause that is current at now_ns. */
static inline uint64_t patience_limit_ns(const struct patience *p, uint64_t now_ns)
{
	uint64_t long_ns = patience_long_ns(p);

	if (now_ns < p->crowded_until_ns) {
		if (patience_yields(p))
			return 0;
		long_ns = MIN(long_ns, PATIENCE_CROWDED * p->spin_ns);
	}
	return p->is_long ? MAX(p->spin_ns, long_ns) : p->spin_ns;
}

/* The poll at now_ns found nothing. True: poll again; false: sleep. */
static inline bool patience_lasts(struct patience *p, uint64_t now_ns)
{
	if (p->spin_ns == PATIENCE_ENDLESS)
		return true;
	if (!p->since_ns)
		patience_begin_pause(p, now_ns);
	return now_ns - p->since_ns < patience_limit_ns(p, now_ns);
}

/* The poll at now_ns found n items, which ends a pause. n is 0 when a file descriptor woke the
 * loop. */
static inline void patience_found(struct patience *p, uint64_t now_ns, unsigned n)
{
	p->n_found += n;
	if (!p->since_ns)
		return;
	p->pause_ns = patience_mean(p->pause_ns,
				    MIN(now_ns - p->since_ns, (uint64_t)PATIENCE_PAUSE_MAX_NS));
	patience_judge(p);
	p->since_ns = 0;
	p->found_ns = now_ns;
}
