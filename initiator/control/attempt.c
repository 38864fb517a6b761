/* SPDX-License-Identifier: BSD-3-Clause */
/* See attempt.h. */
#include "initiator/control/attempt.h"

#include "base/bits.h"
#include "base/clock.h"

#define DELAY_MIN_NS (100 * NSEC_PER_MSEC)
/* A request that went to a target just dying is not waited for as long as the first. */
#define CONNECT_MIN_NS (2 * NSEC_PER_SEC)
#define CONNECT_MAX_NS (10 * NSEC_PER_SEC)
/* Between attempts at an obstacle. */
#define OBSTACLE_MIN_NS (1 * NSEC_PER_SEC)
#define OBSTACLE_MAX_NS (5 * NSEC_PER_SEC)

uint64_t attempt_delay_ns(unsigned n_attempts, uint64_t max_ns)
{
	return n_attempts ? MIN(DELAY_MIN_NS << MIN(n_attempts - 1, 16u), max_ns) : 0;
}

uint64_t attempt_obstacle_delay_ns(unsigned n_refusals, uint64_t max_ns)
{
	return MIN(OBSTACLE_MIN_NS << MIN(n_refusals ? n_refusals - 1 : 0, 8u),
		   MAX(OBSTACLE_MAX_NS, max_ns));
}

uint64_t attempt_timeout_ns(unsigned n_attempts)
{
	return MIN(CONNECT_MIN_NS << MIN(n_attempts, 3u), CONNECT_MAX_NS);
}
