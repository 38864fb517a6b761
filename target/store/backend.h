/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend: where a namespace's bytes live. Its kind is an ops table (backend_ops.h). Threads:
 * control calls open, close, resize; any poller submits, with its backend_thread, and an io
 * completes there. The namespace owns it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/probe.h"
#include "target/store/backend_io.h"
#include "target/store/backend_ops.h"
#include "target/store/limits.h"
#include "target/store/share.h"

struct backend_thread;
struct whole;

struct backend {
	const struct backend_ops *ops;
	/* A sync failed, so acknowledged data may be lost: writes and flushes fail from then on
	 * (fault F9). The backend sets it, any thread. */
	_Atomic bool has_failed;
	/* The size in limits is not that of the store any more (backend_changed). Any thread. */
	_Atomic bool has_changed;
	const char *_Atomic lost_why; /* another machine may have the store; any thread */
	bool is_created;	      /* open created the store */
	/* The sizes before and after open or resize grew the store, until it is kept or undone;
	 * grown_to 0: it has not grown. Control. */
	uint64_t grown_from, grown_to;
	/* Called for each io that fails, on its poller, before its done; may be NULL. The owner
	 * sets it and owner. */
	void (*on_error)(struct backend *backend, struct backend_io *io, int error);
	void *owner;
	/* Control writes it in open, and size_bytes in resize: no poller reads that one. */
	struct backend_limits limits;
	/* Identifies the store, to refuse a second export: device and inode of a file, the number
	 * of a block device and 0; both 0: nothing can clash. */
	uint64_t identity[2];
	struct whole *whole; /* owned; NULL: the medium itself keeps blocks whole */
	struct backend_work work;
	struct backend_share shares[POLLERS_MAX]; /* by backend_thread's index */
};

/* The thread's loop. The backend owns io until it calls io->done, never from inside. */
static inline void backend_submit(struct backend *backend, struct backend_thread *thread,
				  struct backend_io *io)
{
	PROBE(rblkd, backend_submit, io, io->op, io->offset, io->length);
	io->is_out = true;
	backend->ops->submit(backend, thread, io);
}
