/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts that do not take their data. A host that posts no receive for a response keeps the SEND in
 * retry forever (RNR), and with it buffers. If the SEND's data is namespace memory, a guard's visit
 * waits as well. Tolerated until another request waits; then the host has 5 s. Poller thread.
 */
#pragma once

struct poller;

/* Control, when it makes the poller. */
void stall_init(struct poller *poller);
/* A request waits for a buffer, or a guard for commands: looks at the poller's queues each second,
 * as long as something waits. */
void stall_watch(struct poller *poller);
/* Any poller; context is a struct poller. A write of this poller waits for a read of memory, whose
 * host does not take its data. The read may be any poller's: each looks at its queues. */
void stall_on_stuck(void *context);
