/* SPDX-License-Identifier: BSD-3-Clause */
/* What it costs on this machine that a loop sleeps: to wake it, and its peer. Any thread. */
#pragma once

#include <stdint.h>

enum {
	/* What is taken for it where it cannot be measured. */
	WAKE_UP_NS = 20 * 1000,
};

/* Nanoseconds: twice from the write to an eventfd until the thread that waits for it runs. The
 * first call takes what a process of this boot has measured (wake_up_kept.h), or measures it with
 * a second thread, for some milliseconds; later ones return the same. */
uint64_t wake_up_ns(void);
