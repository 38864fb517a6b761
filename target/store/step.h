/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of an I/O: what begins and ends each of them, whether libaio, a worker thread or
 * neither carries it out. A result that is known at once goes through `over`, a deferred call,
 * because no io is given back from inside the call that submitted it. All of it runs on the
 * poller's loop.
 */
#pragma once

#include <assert.h>

#include "target/store/backend.h"
#include "target/store/backend_io.h"

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

/* The step of an io that a backend has. */
static inline struct backend_step *backend_step(struct backend_io *io)
{
	return (struct backend_step *)(void *)io->private;
}

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
