/* SPDX-License-Identifier: BSD-3-Clause */
/* See timing.h. */
#include <string.h>

#include "base/bits.h"
#include "target/engine/record/timing.h"

NOINLINE void timing_stage(struct timing *t)
{
	t->is_staged = true;
	t->mark = t->started;
	t->stage = STAGE_RECEIVE;
	memset(t->spent, 0, sizeof(t->spent));
}

NOINLINE void timing_next(struct timing *t, enum stats_stage next)
{
	uint64_t now = ticks_now();

	t->spent[t->stage] += ticks_between(t->mark, now);
	t->mark = now;
	t->stage = next;
}
