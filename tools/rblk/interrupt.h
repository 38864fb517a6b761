/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGINT and SIGTERM as an event of a loop, for a command that then ends early and still says
 * what it has. The first signal is the event; a second one ends the process, as without this.
 * Threads that are made meanwhile leave the signals to the loop's. Thread: the loop's.
 */
#pragma once

#include <signal.h>

#include "base/loop.h"

struct interrupt {
	void (*on_interrupt)(struct interrupt *interrupt);
	struct loop_fd signals;
	sigset_t before; /* the thread's mask of signals */
};

/* From now on on_interrupt, which the caller has set, may be called. 0 or -errno: nothing
 * changes. */
int interrupt_watch(struct interrupt *interrupt, struct loop *loop);
/* Signals do again what they did before. */
void interrupt_leave(struct interrupt *interrupt);
