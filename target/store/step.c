/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/store/step.h"

void backend_take(struct backend *backend, struct backend_thread *thread, struct backend_io *io)
{
	struct backend_step *step = backend_step(io);

	check(io->done);
	io->backend = backend;
	io->loop = thread->loop;
	io->result = 0;
	step->thread = thread;
	step->then = backend_done;
}

/* Work without a backend (backend_run) reports its errors itself. */
static NOINLINE void tell_error(struct backend_io *io, int error)
{
	struct backend *backend = io->backend;

	if (backend && backend->on_error)
		backend->on_error(backend, io, error);
	io->is_short = false;
}

void backend_done(struct backend_io *io, int error)
{
	PROBE(rblkd, backend_complete, io, error);
	if (UNLIKELY(error != 0))
		tell_error(io, error);
	io->is_out = false;
	io->done(io, error);
}

void backend_end_short(struct backend_io *io)
{
	io->is_short = true;
	backend_step(io)->then(io, -EIO);
}

void backend_skip(struct backend_io *io, int error)
{
	struct backend_thread *thread = backend_step(io)->thread;

	io->result = error;
	list_add_tail(&thread->over, &io->node);
	loop_defer(thread->loop, &thread->call);
}

/* Only what is over now: work that follows from it waits for the next turn. */
void backend_run_over(struct loop_call *call)
{
	struct backend_thread *thread = container_of(call, struct backend_thread, call);
	struct list now, *node;

	list_init(&now);
	list_splice_tail(&now, &thread->over);
	while ((node = list_take_first(&now))) {
		struct backend_io *io = list_entry(node, struct backend_io, node);

		backend_step(io)->then(io, io->result);
	}
}
