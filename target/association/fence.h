/* SPDX-License-Identifier: BSD-3-Clause */
/* The fence between two associations of one host; fence.c explains it. Control thread. */
#pragma once

#include <stdbool.h>

struct connect_op;
struct connection;
struct target;

/* target->fence. on_release is called once for each Connect that was held, never from inside
 * fence_hold: nothing holds it any more, and op->status has the reason. NVME_OK: the I/O has
 * ended; NVME_CONNECT_BUSY: it has not within fencing.quiesce; NVME_ABORTED_SQ_DELETION: its
 * connection dies. NULL: no memory. */
struct fence *fence_new(struct target *target, void (*on_release)(struct connect_op *op));
void fence_free(struct fence *fence); /* accepts NULL; no Connect is held */
/* Whether an older association of this host still has I/O in flight. If so, the op is held, and its
 * connection's limit of time stops. */
bool fence_hold(struct connect_op *op);
/* An association may have ended: releases Connects that no longer wait. */
void fence_check(struct target *target);
/* For a connection that dies: releases its Connect, if that is held. */
void fence_cancel(struct connection *c);
