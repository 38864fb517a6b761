/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For how long it is worth polling for what comes next. Pure: time is an argument.
 *
 * Who sleeps is woken 10 to 50 us late, and whoever wakes it pays for a system call. So everybody polls for
 * spin_ns before it sleeps, and for up to PATIENCE_LONG_NS while the pauses between what comes are
 * shorter than half of that in the mean: those in which a disk works, or the host thinks.
 *
 * Who sleeps sees pauses that are longer by its own wake-up, and by those of whoever it waits for, which sleeps for
 * the same reason. So where they are twice as long as would do, it tries, and polls on while they prove short.
 *
 * Crowds. Polling costs nothing where nobody else wants the CPU. Where somebody does (crowd.h), and for a
 * while after, who is brought several things at once now and then, or long work (spin_ns), sleeps without
 * polling: others have the CPU, and more comes together meanwhile, which is cheaper by the piece. Who is brought one
 * small thing at a time polls on, for there its wake-up is what everybody waits for; but not so long, for it
 * may be on the CPU of the one that it waits for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

enum {
	PATIENCE_LONG = 25, /* times spin_ns, but at most: */
	PATIENCE_LONG_NS = 500 * 1000,
	PATIENCE_CROWDED = 5,		     /* times spin_ns, in a crowd */
	PATIENCE_PAUSE_MAX_NS = 2500 * 1000, /* forgotten sooner than a longer one */
	PATIENCE_WEIGHT = 8,		     /* of a mean, 1 of them the new value's */
	PATIENCE_LOOK_NS = 2 * 1000 * 1000,  /* from one look for a crowd to the next */
	PATIENCE_CROWDED_NS = 800 * 1000 * 1000,
	PATIENCE_SEVERAL = 3,  /* things at once: of one I/O these may be two */
	PATIENCE_UNIT = 256,   /* of n_at_once, to a thing */
	PATIENCE_FORGETS = 64, /* pauses, until what came at once is a third of it */
	PATIENCE_WORK_MAX = 3, /* times spin_ns: the rest was an interruption */
};

#define PATIENCE_ENDLESS UINT64_MAX /* as spin_ns: never sleep */

struct patience {
	/* Thread: the owner's */
	uint64_t spin_ns;	   /* 0: sleep as soon as a look found nothing */
	uint64_t since_ns;	   /* nothing came since then; 0: the last look found something */
	uint64_t pause_ns;	   /* mean */
	bool is_long;		   /* pauses are worth more than spin_ns, or that is being tried */
	uint64_t found_ns;	   /* when the last pause ended */
	uint64_t work_ns;	   /* mean, from there to the next */
	unsigned n_found;	   /* things that came since found_ns */
	unsigned n_at_once;	   /* the most of late, in PATIENCE_UNIT */
	uint64_t looked_ns;	   /* for a crowd */
	uint64_t crowded_until_ns; /* nobody looks meanwhile: we sleep */
};

static inline void patience_init(struct patience *p, uint64_t spin_ns)
{
	*p = (struct patience){.spin_ns = spin_ns, .pause_ns = PATIENCE_PAUSE_MAX_NS};
}

static inline uint64_t patience_mean(uint64_t mean, uint64_t value)
{
	return (mean * (PATIENCE_WEIGHT - 1) + value) / PATIENCE_WEIGHT;
}

/* Whether it is time to look for a crowd. */
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

/* After a pause: whether the next ones are worth a long wait. */
static inline void patience_judge(struct patience *p)
{
	uint64_t long_ns = patience_long_ns(p);

	if (p->is_long && p->pause_ns > long_ns / 2) {
		p->is_long = false;
		p->pause_ns = PATIENCE_PAUSE_MAX_NS; /* for a while there is no other try */
	} else if (!p->is_long && p->pause_ns <= long_ns) {
		p->is_long = true;
		p->pause_ns = long_ns / 2; /* a try: one long pause ends it */
	}
}

/* Leaves a crowded CPU to the others. */
static inline bool patience_yields(const struct patience *p)
{
	return p->n_at_once >= PATIENCE_SEVERAL * PATIENCE_UNIT || p->work_ns >= p->spin_ns;
}

/* For how long to poll, as the last pauses were. */
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

/* A look at now_ns found nothing. Whether to look again: else it is time to sleep. */
static inline bool patience_lasts(struct patience *p, uint64_t now_ns)
{
	if (p->spin_ns == PATIENCE_ENDLESS)
		return true;
	if (!p->since_ns)
		patience_begin_pause(p, now_ns);
	return now_ns - p->since_ns < patience_limit_ns(p, now_ns);
}

/* A look at now_ns found n things. */
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
