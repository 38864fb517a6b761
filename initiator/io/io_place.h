/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an I/O is from submit until done: see io_place.c. I/O loop. */
#pragma once

#include "base/states.h"
#include "initiator/io/queue_impl.h"

extern const struct state_rule io_place_rules[];

/* Stops the process if the I/O is somewhere else than the move says. */
static inline void io_move(struct volume_io *io, enum io_place next)
{
	states_move("I/O", io_place_rules, &io->place, next);
}

/* Sent, taken or finished: its owner is told, from here. */
static inline void io_end(struct volume_io *io, int error)
{
	io_move(io, IO_DONE);
	io->done(io, error);
}

/* To the head, or the end, of the held ones. */
void io_hold_first(struct volume_queue *queue, struct volume_io *io);
void io_hold_last(struct volume_queue *queue, struct volume_io *io);
/* The oldest of the held ones, which stays there; NULL: there is none. */
struct volume_io *io_oldest_held(const struct volume_queue *queue);
/* It waits for a while, and is held again then. */
void io_wait(struct volume_queue *queue, struct volume_io *io);
/* The retry timer will fire. */
void io_start_retry_timer(struct volume_queue *queue);
/* The waiting ones are held again, before all others and in order. */
void io_hold_waiting(struct volume_queue *queue);
/* A held or waiting one is taken. */
void io_take(struct volume_queue *queue, struct volume_io *io);
/* done(error) follows, not from inside. */
void io_finish_later(struct volume_queue *queue, struct volume_io *io, int error);
void io_on_finish(struct loop_call *call); /* the queue's finish_call */
/* A Compare and Write is lost with its connection, and over: done(-ECONNRESET) follows. */
void io_end_unknown(struct volume_queue *queue, struct volume_io *io);
/* The target cannot be reached, and is not waited for any more: done(-EIO) follows. */
void io_give_up(struct volume_queue *queue, struct volume_io *io);
/* Every held and waiting one is given up. */
void io_give_up_all(struct volume_queue *queue);
