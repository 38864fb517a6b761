/* SPDX-License-Identifier: BSD-3-Clause */
/* By which paths a Flush goes: see io_flush.c. I/O loop. */
#pragma once

#include "initiator/io/queue.h"

/* A Flush is submitted. */
void io_flush_begin(struct volume_queue *queue, struct volume_io *io);
/* The lane that it goes on now, with room for it; NULL: none, and with *ret_waits it has to wait
 * for one that is not connected now, or that refuses I/O for a while. */
struct lane *io_flush_lane(struct volume_queue *queue, const struct volume_io *io, bool *ret_waits);
/* It has succeeded on the lane; false: it has to go on another one, too. */
bool io_flush_is_over(const struct lane *lane, const struct volume_io *io);
