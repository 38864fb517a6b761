/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake target's asynchronous events: one request a controller, which waits for a change. */
#pragma once

#include <stdint.h>

struct slot;

enum notice { /* bits */
	NOTICE_NS = 1 << 0,
	NOTICE_ANA = 1 << 1,
	NOTICE_DISCOVERY = 1 << 2,
};

/* An Asynchronous Event Request: answered when there is something to notify of. */
void events_start(struct slot *slot);
/* Notifies all controllers of that kind. */
void events_notify(enum notice notice);
/* The log page was read without RAE. */
void events_clear(enum notice notice);
/* Whether it was not read since. */
int events_are_pending(enum notice notice);
