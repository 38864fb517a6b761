/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane: the I/O queue of one path, as one of the ways that the I/O of a volume's queue may take.
 * It has two sides, which exchange loop messages only:
 *
 *   control loop (connection.c): resolves, makes completion queue, queue pair and
 *       registrations, connects, takes them apart again; decides when.
 *   I/O loop (lane.c, lane_watch.c, lane_auth.c): sends commands, takes answers.
 *     control                                  I/O loop
 *     resolve, make cq and qp   -- attach -->  polls the cq, posts receives
 *                               <- attached -
 *     connect (CM)              -- start  -->  sends the Connect command
 *                               <- connected-  live: the queue may send I/O on it
 *                               <-- failed --  (first error, once per attach)
 *     disconnect                -- stop   -->  drains; I/O in flight is the queue's again
 *                               <- stopped --
 *     unmake; maybe again from the top
 *
 * Objects that control made, and limits, belong to the I/O loop from attach to stopped. Outside of
 * that the I/O loop does not know the lane, and control may free it.
 */
#pragma once

#include "base/loop.h"

struct lane;
struct path;
struct volume_queue;

struct lane_config {
	struct path *path;
	struct volume_queue *queue;
	unsigned n_entries; /* of the submission queue */
	uint64_t io_timeout_ns;
	bool is_watched;
	/* control's handlers of the lane's messages */
	void (*on_attached)(struct loop_msg *msg), (*on_connected)(struct loop_msg *msg);
	void (*on_failed)(struct loop_msg *msg), (*on_stopped)(struct loop_msg *msg);
};

/* 0 or -ENOMEM. The caller adds the connection. */
int lane_new(const struct lane_config *config, struct lane **ret_lane);
/* It is detached. Accepts NULL, and one that is half built. */
void lane_free(struct lane *lane);
