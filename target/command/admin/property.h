/* SPDX-License-Identifier: BSD-3-Clause */
/* Property Get and Set: the controller's registers. Poller of the admin queue. */
#pragma once

struct loop_msg;

/* &controller->reset: control has ended the I/O queues of a controller that was disabled. */
void property_reset_done(struct loop_msg *msg);
