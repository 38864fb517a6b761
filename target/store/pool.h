/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker threads, for calls that wait in the kernel: fallocate, discard, and all I/O of files that
 * refuse O_DIRECT. One pool for the process, shared by all pollers.
 */
#pragma once

struct backend_io;
struct backend_thread;

/* For long work that is no I/O of a backend: runs it on a worker thread, then io->done on the
 * loop. */
void backend_run(struct backend_thread *thread, struct backend_io *io,
		 int (*work)(struct backend_io *io));

/* Owner loop. Runs work(io), which returns 0 or -errno, on a worker thread. */
void backend_pool_start(struct backend_io *io, int (*work)(struct backend_io *io));
/* Any thread. Each backend_thread has a reference to the pool, whose threads end with the last. */
void backend_pool_ref(void);
void backend_pool_unref(void);
