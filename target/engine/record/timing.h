/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the time that one command takes, and its stages. The start and the end of each command
 * are recorded; its stages only while is_staged. Poller of the command's queue.
 */
#pragma once

#include "base/bits.h"
#include "base/ticks.h"
#include "target/export/stats.h"

static_assert(STATS_SAMPLE > 2, "timing_start samples the second command of each period");

/* Where the time of one command goes; in ticks. */
struct timing {
	/* Thread: the request's poller */
	uint64_t started;
	bool is_staged; /* stages are recorded, too */
	unsigned stage; /* the stage that began at mark */
	uint64_t mark, spent[STAGES];
};

/* The part that only runs for a staged command. */
void timing_stage(struct timing *t);
void timing_next(struct timing *t, enum stats_stage next);

/* A capsule has arrived, the nth of its queue. slow_ticks: of the target. */
static inline void timing_start(struct timing *t, uint64_t n_commands, uint64_t slow_ticks)
{
	t->started = ticks_now();
	/* The first command of a queue is Connect, so the second is the first sample. */
	t->is_staged = false;
	if (UNLIKELY(n_commands % STATS_SAMPLE == 2) || UNLIKELY(slow_ticks != UINT64_MAX))
		timing_stage(t);
}

/* The command enters a stage. */
static inline void timing_enter(struct timing *t, enum stats_stage next)
{
	if (UNLIKELY(t->is_staged))
		timing_next(t, next);
}
