/* SPDX-License-Identifier: BSD-3-Clause */
/* What io.c and io_fencing.c share about an I/O that is not on the wire. I/O loop. */
#pragma once

#include "initiator/io/queue.h"

/* Where an I/O is, as far as cancelling must know. */
enum io_place {
	IO_ELSEWHERE, /* on the wire, or on its way to done */
	IO_HELD,
	IO_WAITING,
	IO_FENCING,
};

/* To the head of the held ones. */
void io_hold_first(struct volume_queue *queue, struct volume_io *io);
/* done(error) follows, not from inside. */
void io_finish_later(struct volume_queue *queue, struct volume_io *io, int error);
/* A Compare and Write is lost with its connection, and over: done(-ECONNRESET) follows. */
void io_end_unknown(struct volume_queue *queue, struct volume_io *io);
/* The target cannot be reached, and is not waited for any more: done(-EIO) follows. */
void io_give_up(struct volume_queue *queue, struct volume_io *io);
