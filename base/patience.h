/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The polling policy of a loop: how long it polls before it sleeps. Pure: time is an argument. The
 * owner is a loop (loop.c), and all calls come from its thread.
 *
 * A pause is the time from the first poll that finds nothing to the next one that finds an item,
 * such as a completion or a message. A loop that polls ends a pause at once. A loop that sleeps
 * ends it one wake-up later, W, which is measured (wake_up.h). The model
 * knows two lengths of a pause, and both follow from W:
 *
 *   soon   at most W. Polling costs no more CPU time than the wake-up that it saves.
 *   near   at most 20 W. A sleep would lengthen the pause by more than a twentieth.
 *
 * The loop keeps the share of its pauses that were soon, and the share that were near. It keeps
 * them twice: for pauses with something in flight, which end with an answer, and for those without,
 * in which the loop waits for new work. More than half of the pauses decide:
 *
 *   no other thread wants the CPU (crowd.h)    near: poll for 20 W; otherwise for W
 *   others want the CPUs that the loop may use soon: poll for W; otherwise not at all
 *   others want the only one that it may use   not at all: the peer itself may need it
 *
 * So a wrong forecast costs W at most: of CPU time in a crowd, of latency elsewhere. W is taken off
 * a pause in which the loop slept, and the mean of a few long pauses does not hide many short ones.
 *
 * SPIN_ALWAYS differs in the first line: it polls without end, once new looks have found no crowd.
 * In a crowd that uses up its time slice, or its peer's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "base/crowd.h"
#include "base/spin.h"

enum {
	/* The share that a wrong forecast may cost: a twentieth. */
	PATIENCE_SHARE = 20,
	/* Shares are in thousandths. A pause is 1/8 of one, so four change a sure forecast. */
	PATIENCE_ONE = 1000,
	PATIENCE_WEIGHT = 8,
	/* From one look for a crowd to the next: about a time slice of the scheduler. Two looks
	 * within one slice see the same. */
	PATIENCE_LOOK_NS = 2 * 1000 * 1000,
	/* A verdict needs about CROWD_WEIGHT looks. It holds for 20 times as long. */
	PATIENCE_VERDICT_NS = CROWD_WEIGHT * PATIENCE_LOOK_NS,
	PATIENCE_CROWDED_NS = PATIENCE_SHARE * PATIENCE_VERDICT_NS,
};

/* The forecast for pauses of one kind. */
struct patience_forecast {
	unsigned soon, near; /* shares */
};

struct patience {
	/* Thread: the owner's */
	uint64_t spin_ns; /* of spin.h */
	uint64_t wake_ns; /* W; 0 where spin_ns is a time */
	struct patience_forecast forecasts[2];
	uint64_t since_ns; /* when the current pause began; 0: there is none */
	bool is_awaiting;  /* it began with something in flight */
	bool has_slept;	   /* in the current pause */
	enum crowd_verdict verdict;
	uint64_t looked_ns;	   /* the last look for a crowd */
	uint64_t crowded_until_ns; /* end of the last verdict; no looks before it */
};

/* spin_ns: of spin.h. wake_ns: W (wake_up.h); 0 where spin_ns is a time. */
static inline void patience_init(struct patience *p, uint64_t spin_ns, uint64_t wake_ns)
{
	*p = (struct patience){.spin_ns = spin_ns, .wake_ns = wake_ns};
}

/* Whether the owner shall now call crowd_look and pass the result to patience_looked. */
static inline bool patience_must_look(const struct patience *p, uint64_t now_ns)
{
	return !spin_is_time(p->spin_ns) && now_ns >= p->crowded_until_ns &&
	       now_ns - p->looked_ns >= PATIENCE_LOOK_NS;
}

/* After patience_must_look: what crowd_look has said. A crowd is believed in for a while. */
static inline void patience_looked(struct patience *p, uint64_t now_ns, enum crowd_verdict verdict)
{
	p->looked_ns = now_ns;
	p->verdict = verdict;
	if (verdict != CROWD_NONE)
		p->crowded_until_ns = now_ns + PATIENCE_CROWDED_NS;
}

/* How long to poll, in the pause that is current at now_ns: as the user says, or by forecast. */
static inline uint64_t patience_limit_ns(const struct patience *p, uint64_t now_ns)
{
	const struct patience_forecast *forecast = &p->forecasts[p->is_awaiting];
	bool is_soon = forecast->soon > PATIENCE_ONE / 2;
	bool is_near = forecast->near > PATIENCE_ONE / 2;

	if (spin_is_time(p->spin_ns))
		return p->spin_ns;
	if (now_ns < p->crowded_until_ns && p->verdict != CROWD_NONE)
		return p->verdict == CROWD_ON_SEVERAL && is_soon ? p->wake_ns : 0;
	if (p->spin_ns == SPIN_ALWAYS && now_ns >= p->crowded_until_ns + PATIENCE_VERDICT_NS)
		return UINT64_MAX;
	return is_near ? PATIENCE_SHARE * p->wake_ns : p->wake_ns;
}

/* The poll at now_ns found nothing, and no pause is current: one begins. is_awaiting: the loop has
 * something in flight. */
static inline void patience_begin_pause(struct patience *p, uint64_t now_ns, bool is_awaiting)
{
	p->since_ns = now_ns;
	p->is_awaiting = is_awaiting;
	p->has_slept = false;
}

/* In a pause, the poll at now_ns found nothing. True: poll again; false: sleep. */
static inline bool patience_lasts(struct patience *p, uint64_t now_ns)
{
	return now_ns - p->since_ns < patience_limit_ns(p, now_ns);
}

/* The owner sleeps now, in the current pause: W counts against it. */
static inline void patience_sleeps(struct patience *p)
{
	p->has_slept = true;
}

/* The share with one more pause. */
static inline unsigned patience_share(unsigned share, bool is_so)
{
	unsigned one = is_so ? PATIENCE_ONE : 0;

	return (share * (PATIENCE_WEIGHT - 1) + one) / PATIENCE_WEIGHT;
}

/* The poll at now_ns found an item, or a file descriptor woke the loop: the pause ends. */
static inline void patience_found(struct patience *p, uint64_t now_ns)
{
	struct patience_forecast *forecast = &p->forecasts[p->is_awaiting];
	uint64_t pause_ns;

	if (!p->since_ns)
		return;
	pause_ns = now_ns - p->since_ns;
	if (p->has_slept)
		pause_ns -= MIN(pause_ns, p->wake_ns);
	forecast->soon = patience_share(forecast->soon, pause_ns <= p->wake_ns);
	forecast->near = patience_share(forecast->near, pause_ns <= PATIENCE_SHARE * p->wake_ns);
	p->since_ns = 0;
}
