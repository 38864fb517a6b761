/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands keep to the limits of their namespace and their host. One that is beyond them waits
 * before it gets a buffer, in a line of its poller in which queues take turns; a timer wakes it.
 * Flush, reservations and all that is no I/O is never held. Everything here runs on the poller.
 */
#pragma once

#include "base/loop.h"

struct request;

/* A parsed I/O command: whether there are limits for it at all. */
bool throttle_applies(const struct request *r);
/* If there are: whether it must wait; then it stands in a line. */
bool throttle_hold(struct request *r);
/* One that waits leaves its line. */
void throttle_leave(struct request *r);
/* poller->throttle's. */
void throttle_on_expiry(struct loop_timer *timer);
