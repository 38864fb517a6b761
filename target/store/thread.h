/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The building blocks of backends, for the files of this folder only: ways to carry out one step of
 * an I/O on a poller's backend_thread (libaio, a worker thread, or nothing at all). Each ends with
 * a call of step.then on the poller's loop, never from inside the call that started it.
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

/*
 * The resources that one poller lends to all backends: a libaio context with its eventfd, polled as
 * a source of the loop with one io_submit a turn, and the way back from the worker threads. At most
 * depth iocbs are in flight; further ones wait. With depth 0, or without a context from the system,
 * worker threads do everything. index: below POLLERS_MAX, each once. 0 or -errno.
 */
int backend_thread_new(struct loop *loop, unsigned index, unsigned depth,
		       struct backend_thread **ret_thread);
/* Owner loop, before it runs. on_stuck is called once a second while an io waits long for readers
 * of memory. */
void backend_thread_watch(struct backend_thread *thread, void (*on_stuck)(void *context),
			  void *context);
/* Owner loop, before it runs and after it has stopped. */
void backend_thread_free(struct backend_thread *thread);
