/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What backends are made of, for the files of this folder only: the ways of a poller's
 * backend_thread to carry out one step of an I/O (libaio, a worker thread, or nothing at all). Each
 * ends by calling step.then on the poller's loop, never from inside the call that started it.
 */
#pragma once

#include <assert.h>

#include "target/store/backend.h"

struct backend_aio;

struct backend_thread {
	/* Thread: the loop's */
	struct loop *loop; /* borrowed: outlives this */
	unsigned index;	   /* of backend.shares */
	struct list over;  /* of backend_io.node: steps that are over, then is due */
	struct loop_call call;
	struct backend_aio *aio;	 /* owned; NULL: worker threads do everything */
	void (*on_stuck)(void *context); /* may be NULL */
	void *stuck_context;
};

/* Lies in backend_io.private while a backend has the io. */
struct backend_step {
	uint64_t iocb[8]; /* a struct iocb; ram.c: a struct ram_wait */
	struct backend_thread *thread;
	int (*work)(struct backend_io *io); /* on a worker thread; 0 or -errno */
	/* The step is over: on the loop, error is 0 or -errno. Ends the io or starts
	 * another step. */
	void (*then)(struct backend_io *io, int error);
	enum backend_op op; /* of the step: a FUA write may be a write and then a flush */
	bool is_dsync;
	int fd;
	uint32_t align; /* what offsets of a continued transfer must be multiples of */
};
static_assert(sizeof(struct backend_step) <= sizeof(((struct backend_io *)0)->private),
	      "a step must fit into the io");

static inline struct backend_step *backend_step(struct backend_io *io)
{
	return (struct backend_step *)(void *)io->private;
}

/* First thing in a submit: takes the io over; its last step will call done. */
void backend_take(struct backend *backend, struct backend_thread *thread, struct backend_io *io);
/* Gives the io back. From a step's then; for submit see backend_skip. */
void backend_done(struct backend_io *io, int error);
/* Ends a step with -EIO: no more of the transfer can be had. */
void backend_end_short(struct backend_io *io);
/* A step without work: then is called in the loop's next turn. */
void backend_skip(struct backend_io *io, int error);

/* aio.c. Reads, writes (with FUA if is_dsync) or flushes through libaio on fd. Where a disk that is
 * full would make the poller wait, if_full does it on a worker thread, when the disk does not get
 * room by what comes back; NULL: nothing is full, or it may wait. Call only where thread->aio is
 * there. */
void backend_aio_start(struct backend_io *io, enum backend_op op, bool is_dsync, int fd,
		       uint32_t align, int (*if_full)(struct backend_io *io));

/* pool.c. work(io) on a worker thread. */
void backend_pool_start(struct backend_io *io, int (*work)(struct backend_io *io));
/* Each backend_thread holds the pool; its threads end with the last one. */
void backend_pool_ref(void);
void backend_pool_unref(void);
