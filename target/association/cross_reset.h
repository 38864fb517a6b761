/* SPDX-License-Identifier: BSD-3-Clause */
/* Cross-Controller Resets (TP 8028) on the control thread: finds the controller that a host has
 * lost, ends it, and answers once nothing of it is left. */
#pragma once

struct controller;
struct loop_msg;
struct target;

/* Control, when the controller is created: no reset concerns it, and it has requested none. */
void cross_reset_init(struct controller *controller);
/* Control, just before the controller is freed: all of its commands are over. Answers those that
 * wait for that, and withdraws what it has requested itself. */
void cross_reset_end(struct controller *controller);
/* Control. Its host is lost: the host's other controllers of the subsystem have that in log page
 * 1Fh. Accepts a controller that did not serve I/O: there is nothing to lose. */
void cross_reset_note_lost(const struct controller *controller);
/* Control. This rblkd has become the owner of stores: answers resets of controllers that an earlier
 * process of this machine has made, and that waited for the locks. */
void cross_reset_note_locks(struct target *target);
