/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of slow commands. */
#pragma once

#include "target/engine/request.h"
#include "target/engine/target.h"

/* Control. What takes as long is said from now on; 0: nothing. */
void slow_set(struct target *target, uint64_t ns);
/* Poller. It took ns, which is slow; its stages were kept. */
void slow_answered(const struct request *r, uint64_t ns);
