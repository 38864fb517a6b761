/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clocks. Every time that a program reads or waits for comes from here or from ticks.h, so that
 * a test can replace it. Nanoseconds in 64 bits. Any thread; nothing here fails.
 */
#pragma once

#include <stdint.h>
#include <time.h>

#include "base/bits.h"

#define NSEC_PER_SEC  1000000000ULL
#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_USEC 1000ULL

/*
 * The seam for simulation. A test that sets a source sets the time: clock_ns and ticks_now return
 * its now_ns, and a wait calls its sleep_ns. A loop that sleeps in epoll still sleeps in real
 * time. So a simulation turns its loops without sleep (loop_turn with 0), and when no loop finds
 * anything it moves its clock to the next loop_deadline_ns.
 */
struct clock_source {
	uint64_t (*now_ns)(void);  /* monotonic, above 0; any thread */
	uint64_t (*wall_ns)(void); /* since 1970, UTC */
	void (*sleep_ns)(uint64_t ns);
};

/* NULL: the machine's clocks. Set before ticks_init and before threads start; never freed. */
extern const struct clock_source *clock_source;

/* Monotonic time, for durations and deadlines. */
static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	if (UNLIKELY(clock_source != NULL))
		return clock_source->now_ns();
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* The time of day, since 1970 in UTC. For output, never for durations. */
uint64_t clock_wall_ns(void);
static inline time_t clock_wall_s(void)
{
	return (time_t)(clock_wall_ns() / NSEC_PER_SEC);
}

/* Blocks the thread, so never call it on a loop that serves I/O. */
void clock_sleep_ns(uint64_t ns);
