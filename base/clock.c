/* SPDX-License-Identifier: BSD-3-Clause */
/* See clock.h. State: the source, set before threads start. */
#include <stddef.h>

#include "base/clock.h"

const struct clock_source *clock_source;

uint64_t clock_wall_ns(void)
{
	struct timespec ts;

	if (clock_source)
		return clock_source->wall_ns();
	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

void clock_sleep_ns(uint64_t ns)
{
	const struct timespec pause = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				       .tv_nsec = (long)(ns % NSEC_PER_SEC)};

	if (clock_source)
		clock_source->sleep_ns(ns);
	else
		nanosleep(&pause, NULL);
}
