/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of sleep for a loop on this machine: the time to wake it, and its peer. Any thread. */
#pragma once

#include <stdint.h>

enum {
	/* assumed where it cannot be measured */
	WAKE_UP_NS = 20 * 1000,
};

/* Nanoseconds: twice from the write to an eventfd until the thread that waits for it runs. The
 * first call takes what a process of this boot has measured (wake_up_kept.h), or measures it with
 * a second thread, for some milliseconds; later ones return the same. */
uint64_t wake_up_ns(void);
