/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices of the target, and each poller's share of them: completion queue, shared receives,
 * registered buffers. Control thread, except where a comment names the poller.
 */
#pragma once

#include "base/bits.h"

struct device;
struct poller_device;
struct target;

/* Control. Creates every poller's share of a device that is new. 0 or -errno (logged). The share
 * ends by itself when the device is removed and has no queues any more. */
int pollers_add_device(struct target *target, struct device *device);
/* Control. Counts the queues of the device: one more, one fewer. */
void pollers_take_queue(struct target *target, const struct device *device);
void pollers_give_queue(struct target *target, const struct device *device);
/* Control. For a new queue with n commands: the shared ring gets a receive for each, until it has
 * tuning.shared_receives. 0: the caller gives them back with the queue; or -errno (logged). */
int poller_device_take_receives(struct poller_device *pd, unsigned n);
void poller_device_give_receives(struct poller_device *pd, unsigned n);
/* Poller. Stops polling a device; accepts a share that was not started. */
void poller_device_stop(struct poller_device *pd);
/* Control, once the share is stopped. Accepts a zeroed one. */
void poller_device_free(struct poller_device *pd);

/* Send-queue slots of a queue of n_entries. A response takes one slot or, with data, two. Up to 32
 * commands can all send at once; of a longer queue, half. The 28 more are for chains: hosts answer
 * 28 responses of a chain before its last one, the signaled one, completes. */
static inline unsigned queue_send_depth(unsigned n_entries)
{
	return MAX(n_entries / 2, MIN(2 * n_entries, 64)) + 28;
}
