/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processor's own counter. A stamp costs a few instructions, so every command can be timed. A
 * rate that ticks_init measures once turns ticks into nanoseconds. It is correct to a fraction of a
 * percent where the counter runs evenly (all x86 processors of the last decade). For durations, not
 * for deadlines. Any thread; nothing fails.
 */
#pragma once

#include <stdint.h>

#include "base/bits.h"
#include "base/clock.h"

enum {
	TICKS_SHIFT = 22,
	TICKS_LONG = 40, /* bits of the longest duration, some minutes */
};

extern uint64_t ticks_rate; /* ns a tick, times 2^TICKS_SHIFT; ticks_init sets it */

/* The time stamp counter, or the clock of a simulation in ns. Any thread. */
static inline uint64_t ticks_now(void)
{
	if (UNLIKELY(clock_source != NULL))
		return clock_source->now_ns();
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return clock_ns();
#endif
}

/* Ticks from one stamp to a later one; 0 if the counter of another processor is a little behind. */
static inline uint64_t ticks_between(uint64_t from, uint64_t to)
{
	uint64_t ticks = to - from;

	if (UNLIKELY(ticks >> TICKS_LONG))
		return (int64_t)ticks < 0 ? 0 : (1ULL << TICKS_LONG) - 1;
	return ticks;
}

/* For a result of ticks_between. */
static inline uint64_t ticks_to_ns(uint64_t ticks)
{
	return ticks * ticks_rate >> TICKS_SHIFT;
}

/* For any number of ticks, such as hours. */
static inline uint64_t ticks_to_ns_long(uint64_t ticks)
{
	const uint64_t below = (1ULL << TICKS_SHIFT) - 1;

	return (ticks >> TICKS_SHIFT) * ticks_rate + ((ticks & below) * ticks_rate >> TICKS_SHIFT);
}

/* For a limit to compare durations with; at most the longest duration. */
static inline uint64_t ticks_from_ns(uint64_t ns)
{
	uint64_t ticks, most = (1ULL << TICKS_LONG) - 1;

	if (__builtin_mul_overflow(ns, 1ULL << TICKS_SHIFT, &ticks))
		return most;
	ticks /= ticks_rate;
	return ticks < most ? ticks : most;
}

/* Measures the rate, for some milliseconds. Before other threads use it. */
void ticks_init(void);
