/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the log of a discovery controller, in one of its states: see discovery_read.c. */
#pragma once

struct controller;

/* Live, and no read is under way: reads the log into c->discovery_read.result, which the caller may
 * take over; then done, not from inside. Unmasks the event. A log that cannot be used, or does not
 * stop changing, fails the association (CAUSE_UNUSABLE); done is not called then, nor if the
 * association is lost before. Whatever the end, the owner releases the result. */
void discovery_read(struct controller *c, void (*done)(struct controller *c));
