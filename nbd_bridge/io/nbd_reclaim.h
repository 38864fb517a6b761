/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory comes back from clients that stand still: those that take no replies, and those
 * that stop in the middle of a payload.
 */
#pragma once

#include "base/loop.h"

/* Worker thread: the timer of a struct nbd_thread has expired. While a connection of the thread
 * waits for a buffer, each part that has waited for its client since the last look loses its buffer
 * (nbd_part_copy_out): after two looks, NBD_RECLAIM_NS apart, no client holds what it does not use.
 * A client that goes on later notices nothing. */
void nbd_reclaim_on_look(struct loop_timer *timer);
