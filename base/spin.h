/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a loop polls before it sleeps, as a user asks for it: nanoseconds, 0 for never, or one
 * of the two values below. Pure, any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define SPIN_ALWAYS UINT64_MAX /* until others want the CPU (patience.h), or it rests (loop_rest) */
#define SPIN_AUTO   (UINT64_MAX - 1) /* the loop decides: patience.h */

/* Whether the loop polls for that time whatever the machine is; others look at the machine. */
static inline bool spin_is_time(uint64_t spin)
{
	return spin < SPIN_AUTO;
}

/* "auto", "always", "never", or a duration up to 1 s. Returns 0 or -EINVAL. */
int spin_parse(const char *text, uint64_t *ret_spin);
/* The same text again, in buf or static. */
const char *spin_format(char buf[UNITS_MAX], uint64_t spin);
