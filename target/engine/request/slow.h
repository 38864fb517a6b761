/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of slow commands. */
#pragma once

#include <stdint.h>

struct request;
struct target;

/* Control. Logs commands that take at least ns from now on; 0: none. */
void slow_set(struct target *target, uint64_t ns);
/* Poller. Logs a command that took ns, which is slow; its stages were recorded. */
void slow_answered(const struct request *r, uint64_t ns);
