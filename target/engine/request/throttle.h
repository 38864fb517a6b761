/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rate limits of namespaces and hosts. A command beyond a limit waits before it gets a buffer, in a
 * line of its poller in which queues take turns; a timer resumes it. Flush, reservation commands
 * and all that is no I/O never wait. Poller thread.
 */
#pragma once

#include <stdbool.h>

struct list;
struct poller;
struct request;

/* For a parsed I/O command: whether any limit applies to it. */
bool throttle_applies(const struct request *r);
/* If one does: whether the command must wait. It is in a line then. */
bool throttle_hold(struct request *r);
/* Takes a waiting command out of its line. */
void throttle_leave(struct request *r);

/* When poller->throttle expires: takes the lines out of poller->throttled, for throttle_next. */
void throttle_take_lines(struct poller *poller, struct list *ret_lines);
/* The next of their commands that has paid all its rates, and is in no line any more; NULL: there
 * is none, and the lines are in poller->throttled again. Other calls of this header may come in
 * between. */
struct request *throttle_next(struct poller *poller, struct list *lines);
