/* SPDX-License-Identifier: BSD-3-Clause */
/* Last words: what hosts had asked for when the program broke down. */
#pragma once

struct target;

/* Control. From now on a fatal signal (a failed check, too) writes the last capsules of each queue
 * to stderr, before the signal has its usual effect. */
void fatal_init(const struct target *target);
/* The target goes. */
void fatal_deinit(void);
