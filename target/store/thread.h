/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The building blocks of backends, for the files of this folder only: ways to carry out one step of
 * an I/O on a poller's backend_thread (libaio, a worker thread, or nothing at all). Each ends with
 * a call of step.then on the poller's loop, never from inside the call that started it.
 */
#pragma once

#include "target/store/step.h"

struct loop;

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
