/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For how long it is worth polling for what comes next. Pure: time is an argument.
 *
 * Who sleeps is woken 10 to 30 us late, and whoever wakes it pays for a system call. So everybody polls for
 * spin_ns before it sleeps, and for up to PATIENCE_LONG_NS while the pauses between what comes are
 * shorter than half of that in the mean: those in which a disk works, or the host thinks.
 *
 * Crowds. Polling costs nothing where nobody else wants the CPU. Who does shows: between two looks in
 * vain passes much more time than a look takes, twice within PATIENCE_AGAIN_NS. For a while after that, who is brought
 * several things at once sleeps without polling: more of them come together meanwhile, each is cheaper
 * then, and others have the CPU. Who is brought one at a time polls on, for there its wake-up is
 * what everybody waits for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

enum {
	PATIENCE_LONG = 10, /* times spin_ns, but at most: */
	PATIENCE_LONG_NS = 200 * 1000,
	PATIENCE_PAUSE_MAX_NS =
		1000 * 1000, /* a longer pause says no more, and is forgotten sooner so */
	PATIENCE_WEIGHT = 8, /* of a mean, 1 of them the new value's */
	PATIENCE_LATE_NS =
		30 * 1000, /* a look so long after the one before: somebody else ran */
	PATIENCE_AGAIN_NS = 3 * 1000 * 1000,
	PATIENCE_CROWDED_NS = 200 * 1000 * 1000,
	PATIENCE_SEVERAL = 2, /* things at once, in the mean */
	PATIENCE_UNIT = 16,   /* of that mean, to a thing */
};

/* As spin_ns: never sleep. */
#define PATIENCE_ENDLESS UINT64_MAX

struct patience {
	/* Thread: the owner's */
	uint64_t spin_ns;  /* 0: sleep as soon as a look found nothing */
	uint64_t since_ns; /* nothing came since then; 0: the last look found something */
	uint64_t last_ns;  /* the last look in vain, or waking up after it */
	uint64_t pause_ns; /* mean */
	uint64_t late_ns;  /* the last look that was late */
	uint64_t crowded_until_ns;
	unsigned n_now;	    /* things that came since the last pause */
	unsigned n_at_once; /* mean, in PATIENCE_UNIT */
};

static inline void patience_init(struct patience *p, uint64_t spin_ns)
{
	*p = (struct patience){.spin_ns = spin_ns, .pause_ns = PATIENCE_PAUSE_MAX_NS};
}

static inline void patience_note_look(struct patience *p, uint64_t now_ns)
{
	if (now_ns - p->last_ns >= PATIENCE_LATE_NS) {
		if (now_ns - p->late_ns < PATIENCE_AGAIN_NS)
			p->crowded_until_ns = now_ns + PATIENCE_CROWDED_NS;
		p->late_ns = now_ns;
	}
	p->last_ns = now_ns;
}

static inline void patience_begin_pause(struct patience *p, uint64_t now_ns)
{
	p->since_ns = p->last_ns = now_ns;
	p->n_at_once = (p->n_at_once * (PATIENCE_WEIGHT - 1) + p->n_now * PATIENCE_UNIT) /
		       PATIENCE_WEIGHT;
	p->n_now = 0;
}

/* How long to poll, as the last pauses were. */
static inline uint64_t patience_limit_ns(const struct patience *p)
{
	uint64_t long_ns = MIN(PATIENCE_LONG * p->spin_ns, (uint64_t)PATIENCE_LONG_NS);

	return p->pause_ns <= long_ns / 2 ? MAX(p->spin_ns, long_ns) : p->spin_ns;
}

/* A look at now_ns found nothing. Whether to look again: else it is time to sleep. */
static inline bool patience_lasts(struct patience *p, uint64_t now_ns)
{
	if (p->spin_ns == PATIENCE_ENDLESS)
		return true;
	if (p->since_ns)
		patience_note_look(p, now_ns);
	else
		patience_begin_pause(p, now_ns);
	if (now_ns < p->crowded_until_ns &&
	    p->n_at_once >= PATIENCE_SEVERAL * PATIENCE_UNIT)
		return false;
	return now_ns - p->since_ns < patience_limit_ns(p);
}

/* A look at now_ns found n things. */
static inline void patience_found(struct patience *p, uint64_t now_ns, unsigned n)
{
	p->n_now += n;
	if (!p->since_ns)
		return;
	patience_note_look(p, now_ns);
	p->pause_ns = (p->pause_ns * (PATIENCE_WEIGHT - 1) +
		       MIN(now_ns - p->since_ns, (uint64_t)PATIENCE_PAUSE_MAX_NS)) /
		      PATIENCE_WEIGHT;
	p->since_ns = 0;
}

/* Woken: time that was slept is nobody else's. */
static inline void patience_woke(struct patience *p, uint64_t now_ns)
{
	p->last_ns = now_ns;
}
