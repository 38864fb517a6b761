/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For a loop that its owner runs from calls of its own, instead of loop_run. The owner's thread, or
 * several that take turns. Nothing here fails.
 */
#pragma once

#include "base/loop.h"

/* One pass, without waiting; returns how many items it handled. Ends what loop_arm began. */
unsigned loop_poll(struct loop *loop);
/* Submits what was queued since the last pass. */
void loop_flush(struct loop *loop);
/* Prepares for a sleep on epoll_fd elsewhere, as in poll(2), which loop_deadline_ns ends. False:
 * something came meanwhile, so the owner polls instead. */
bool loop_arm(struct loop *loop);
