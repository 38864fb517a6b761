/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The building blocks of backends, for the files of this folder only: ways to carry out one step of
 * an I/O on a poller's backend_thread (libaio, a worker thread, or nothing at all). Each ends with
 * a call of step.then on the poller's loop, never from inside the call that started it.
 */
#pragma once

#include <assert.h>

#include "target/store/backend.h"

struct backend_aio;

struct backend_thread {
	/* Thread: the loop's */
	struct loop *loop; /* borrowed: outlives this */
	unsigned index;	   /* of backend.shares */
	struct list over;  /* of backend_io.node: ended steps that must call then */
	struct loop_call call;
	struct backend_aio *aio;	 /* owned; NULL: worker threads do everything */
	void (*on_stuck)(void *context); /* may be NULL */
	void *stuck_context;
};

/* In backend_io.private while a backend has the io. */
struct backend_step {
	uint64_t iocb[8]; /* a struct iocb; ram.c: a struct ram_wait */
	struct backend_thread *thread;
	int (*work)(struct backend_io *io); /* on a worker thread; 0 or -errno */
	/* The step is over; on the loop, error 0 or -errno. Ends the io or starts another step. */
	void (*then)(struct backend_io *io, int error);
	enum backend_op op; /* of the step: a FUA write may be a write, then a flush */
	bool is_dsync;
	int fd;
	uint32_t align; /* a continued transfer begins at a multiple of this */
};
static_assert(sizeof(struct backend_step) <= sizeof(((struct backend_io *)0)->private),
	      "a step must fit into the io");

static inline struct backend_step *backend_step(struct backend_io *io)
{
	return (struct backend_step *)(void *)io->private;
}

/* ---- step.c: the owner loop ------------------------------------------------------------- */

/* First in a submit: takes over the io; its last step will call done. backend NULL: work that is no
 * I/O of a backend. */
void backend_take(struct backend *backend, struct backend_thread *thread, struct backend_io *io);
/* Gives the io back: error 0 or -errno. From a step's then; for submit see backend_skip. */
void backend_done(struct backend_io *io, int error);
/* Ends a step with -EIO: the transfer cannot continue. */
void backend_end_short(struct backend_io *io);
/* A step without work: calls then on the next turn of the loop. error: 0 or -errno. */
void backend_skip(struct backend_io *io, int error);
/* thread->call: calls then of the steps in thread->over. */
void backend_run_over(struct loop_call *call);

/* ---- aio.c: the owner loop -------------------------------------------------------------- */

/* At most depth iocbs are in flight. 0; or -errno, of which -EAGAIN, -ENOSYS and -EPERM mean that
 * the system gives no context. The caller frees the result, once nothing is in flight or waits. */
int backend_aio_new(struct loop *loop, unsigned depth, struct backend_aio **ret_aio);
void backend_aio_free(struct backend_aio *aio); /* accepts NULL */
/* Reads, writes (with FUA if is_dsync) or flushes through libaio on fd. If a full disk would make
 * the poller wait, and completions do not free a place, if_full does the work on a worker thread;
 * NULL: the disk is never full, or the poller may wait. Requires thread->aio. */
void backend_aio_start(struct backend_io *io, enum backend_op op, bool is_dsync, int fd,
		       uint32_t align, int (*if_full)(struct backend_io *io));

/* ---- pool.c ----------------------------------------------------------------------------- */

/* Owner loop. Runs work(io), which returns 0 or -errno, on a worker thread. */
void backend_pool_start(struct backend_io *io, int (*work)(struct backend_io *io));
/* Any thread. Each backend_thread has a reference to the pool, whose threads end with the last. */
void backend_pool_ref(void);
void backend_pool_unref(void);
