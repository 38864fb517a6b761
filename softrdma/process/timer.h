/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers, run by the helper. The callback gets a number, not a pointer: it looks the object up and
 * may find it gone. So stopping a timer never has to wait for its callback.
 */
#pragma once

#include <stdint.h>

struct sr_timer {
	struct sr_timer *next, **link; /* link != NULL: running */
	uint64_t due_ns;
	void (*fn)(uint64_t arg);
	uint64_t arg;
};

/* CLOCK_MONOTONIC. Any thread. */
uint64_t sr_now_ns(void);
/* Any thread. Starts it anew if it runs; fn is called without locks of this file. */
void sr_timer_start(struct sr_timer *t, uint64_t delay_ns, void (*fn)(uint64_t), uint64_t arg);
/* Any thread. fn may run, or be about to, when this returns. */
void sr_timer_stop(struct sr_timer *t);
/* Once, after sr_helper_open. 0 or -errno. */
int sr_timers_open(void);
