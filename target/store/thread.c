/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates and frees what one poller lends to all backends; see backend.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "target/store/aio.h"
#include "target/store/pool.h"
#include "target/store/step.h"
#include "target/store/thread.h"

int backend_thread_new(struct loop *loop, unsigned index, unsigned depth,
		       struct backend_thread **ret_thread)
{
	struct backend_thread *thread = calloc(1, sizeof(*thread));
	int r = 0;

	if (!thread)
		return -ENOMEM;
	check(index < POLLERS_MAX);
	thread->loop = loop;
	thread->index = index;
	thread->call.run = backend_run_over;
	list_init(&thread->over);
	backend_pool_ref();
	if (depth)
		r = backend_aio_new(loop, depth, &thread->aio);
	if (r == -EAGAIN || r == -ENOSYS || r == -EPERM) {
		log_warn(
			"no asynchronous I/O from the system (%s): worker threads do it, slower; see fs.aio-max-nr",
			strerror(-r));
		r = 0;
	}
	if (r < 0) {
		backend_thread_free(thread);
		return r;
	}
	*ret_thread = thread;
	return 0;
}

void backend_thread_watch(struct backend_thread *thread, void (*on_stuck)(void *context),
			  void *context)
{
	thread->on_stuck = on_stuck;
	thread->stuck_context = context;
}

void backend_thread_free(struct backend_thread *thread)
{
	if (!thread)
		return;
	check(list_is_empty(&thread->over));
	loop_call_cancel(&thread->call);
	backend_aio_free(thread->aio);
	backend_pool_unref();
	free(thread);
}
