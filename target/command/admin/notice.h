/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices: changes by the control thread, on their way to controllers. The poller of a controller
 * turns them into asynchronous events. All changes until the poller takes the notice are one
 * notice.
 */
#pragma once

#include <stdint.h>

struct controller;
struct target;

/* Control. A namespace was added, removed or resized: notifies every host that is connected to the
 * subsystem. Returns the number of controllers. */
unsigned notice_namespace(struct target *target, const char *subnqn, uint32_t nsid);
/* Control. Notifies hosts connected through that portal to read the ANA log page again. Returns the
 * number of controllers. */
unsigned notice_ana(struct target *target, const char *subnqn, unsigned portal);
/* Control. Another controller has lost the host of this one: its log page 1Fh has a new entry. */
void notice_lost_host(struct controller *controller);
/* Control. Another rblkd takes over: hosts shall connect again, at once. */
void notice_moving(struct target *target);
/* Control. The discovery log may have changed: notifies discovery controllers. */
void notice_discovery(struct target *target);
