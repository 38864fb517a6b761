/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The orderly end of the volume process, in the reverse order of its start:
 *
 *   STOPPING  front ends close; every connection answers what is in flight, refuses new requests
 *             and closes, without waiting for idle clients; a block device in use is left to a
 *             successor, except after `rblk detach`
 *   FLUSHING  one flush of the volume: what was acknowledged is durable
 *   REMOVING  queues, then worker threads
 *   CLOSING   the controller is shut down; on_closed ends the loop
 *
 * All this needs a target that answers. When it does not answer within ten seconds the process logs
 * how many connections are open and exits; the target drops our association by itself.
 */
#pragma once

#include <stdbool.h>

struct bridge;
struct error;

/* Begins the orderly end; more calls change nothing. may_leave: see struct frontend_ops. */
void bridge_stop(struct bridge *bridge, bool may_leave);
/* The same because of an error, which bridge_run returns. */
void bridge_fail(struct bridge *bridge, const struct error *error);
/* A connection is gone: after the last one, a stop that waits for it goes on. */
void bridge_stop_goes_on(struct bridge *bridge);
