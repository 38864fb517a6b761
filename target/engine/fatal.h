/* SPDX-License-Identifier: BSD-3-Clause */
/* Logs the last commands of each queue when rblkd crashes. */
#pragma once

struct target;

/* Control. Installs handlers of fatal signals; a failed check() raises one, too. A handler writes
 * the last capsules of each queue to stderr, then the signal has its usual effect. */
void fatal_init(const struct target *target);
/* Control, before the target is freed. */
void fatal_deinit(void);
