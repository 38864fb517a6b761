/* SPDX-License-Identifier: BSD-3-Clause */
/* The fence between two associations of one host; fence.c explains it. Control thread. */
#pragma once

#include <stdbool.h>

struct connect_op;
struct connection;
struct target;

/* NULL: no memory. */
struct fence *fence_new(struct target *target);
void fence_free(struct fence *fence); /* accepts NULL; no Connect is held */
/* Whether an older association of this host still has I/O in flight. If so, the op is held: it is
 * decided when that I/O ends, or answered with a busy status after 10 s. */
bool fence_hold(struct connect_op *op);
/* An association may have ended: decides Connects that no longer wait. */
void fence_check(struct target *target);
/* For a connection that dies while its Connect is held: answers it. */
void fence_cancel(struct connection *c);
