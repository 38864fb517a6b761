/* SPDX-License-Identifier: BSD-3-Clause */
/* When to connect again, and for how long to try: of paths and of discovery. Pure, any thread. */
#pragma once

#include <stdint.h>

/* An association that lives shorter than this does not earn an attempt at once. */
#define ATTEMPT_STABLE_NS (2 * NSEC_PER_SEC)

/* Before attempt n_attempts, from 0: at once, 100 ms, 200 ms, ... up to max_ns. */
uint64_t attempt_delay_ns(unsigned n_attempts, uint64_t max_ns);
/* At a target that answers, but refuses us, n_refusals times so far: 1 s, 2 s, ... up to 5 s, or to
 * max_ns if that is longer. */
uint64_t attempt_obstacle_delay_ns(unsigned n_refusals, uint64_t max_ns);
/* How long an attempt may take, of which n_attempts went before. */
uint64_t attempt_timeout_ns(unsigned n_attempts);
