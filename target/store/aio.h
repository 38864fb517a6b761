/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's asynchronous I/O (libaio) of one backend_thread. Everything here runs on its loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "target/store/backend_io.h"

struct backend_aio;

/* At most depth iocbs are in flight. 0; or -errno, of which -EAGAIN, -ENOSYS and -EPERM mean that
 * the system gives no context. The caller frees the result, once nothing is in flight or waits. */
int backend_aio_new(struct loop *loop, unsigned depth, struct backend_aio **ret_aio);
void backend_aio_free(struct backend_aio *aio); /* accepts NULL */
/* Reads, writes (with FUA if is_dsync) or flushes through libaio on fd. If a full disk would make
 * the poller wait, and completions do not free a place, if_full does the work on a worker thread;
 * NULL: the disk is never full, or the poller may wait. Requires thread->aio. */
void backend_aio_start(struct backend_io *io, enum backend_op op, bool is_dsync, int fd,
		       uint32_t align, int (*if_full)(struct backend_io *io));
