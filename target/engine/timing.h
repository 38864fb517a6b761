/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time that one command takes, and in which stage. Each command has its start and its end; the
 * stages are kept only while is_staged. Poller of the command's queue.
 */
#pragma once

#include "base/ticks.h"
#include "target/export/stats.h"

struct request;
struct response;

/* Where the time of one command goes; in ticks. */
struct timing {
	/* Thread: the request's poller */
	uint64_t started;
	bool is_staged; /* the rest is kept, too */
	unsigned stage; /* since this mark */
	uint64_t mark, spent[STAGES];
};

/* The parts that only a staged command runs. */
void timing_stage(struct timing *t);
void timing_next(struct timing *t, enum stats_stage next);

static inline void timing_start(struct timing *t, uint64_t n_commands, uint64_t slow_ticks)
{
	t->started = ticks_now();
	/* The first command of a queue is Connect, the second is worth a look. */
	t->is_staged = n_commands % STATS_SAMPLE == 2 || slow_ticks != UINT64_MAX;
	if (__builtin_expect(t->is_staged, 0))
		timing_stage(t);
}

static inline void timing_enter(struct timing *t, enum stats_stage next)
{
	if (__builtin_expect(t->is_staged, 0))
		timing_next(t, next);
}

/* Poller. The response is about to be posted. */
void timing_answered(struct request *r);
/* Poller. A sampled Read's data was sent. */
void timing_sent(struct response *response);
