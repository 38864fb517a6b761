/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O on a file descriptor, shared by files and block devices. For file.c and device.c only; each
 * adds how to open it, and how to make zeroes and holes.
 */
#pragma once

#include <stdatomic.h>

#include "target/store/thread.h"

struct backend_fd {
	struct backend backend;
	/* Thread: control writes, in open; any thread reads. */
	int fd;			 /* owned */
	bool is_direct;		 /* O_DIRECT: fit for libaio; else worker threads */
	bool can_be_full;	 /* a submit would wait if the disk has no free place */
	bool is_shared;		 /* another rblkd may have it, too */
	char *path;		 /* owned */
	struct regions *regions; /* owned; NULL with O_DIRECT: the disk keeps blocks whole */
	/* On a worker thread. 0 or -errno; -EOPNOTSUPP if unsupported. */
	int (*zero)(struct backend_fd *disk, uint64_t offset, uint64_t n, bool may_unmap);
	int (*discard)(struct backend_fd *disk, uint64_t offset, uint64_t n);
	/* Any thread */
	_Atomic bool lacks_dsync; /* the kernel refused RWF_DSYNC: write, then sync */
	_Atomic bool lacks_aio_sync;
};

/* ops.submit and ops.close of both. */
void backend_fd_submit(struct backend *backend, struct backend_thread *thread,
		       struct backend_io *io);
void backend_fd_close(struct backend *backend); /* accepts half-built ones */

struct backend_fd *backend_fd_new(const struct backend_ops *ops, const char *path);

/*
 * open(2); without following symbolic links if must_not_follow, and never through /proc's magic
 * links. Returns the file descriptor, or -errno.
 */
int backend_fd_open(const char *path, int flags, bool must_not_follow);
/* The smallest transfer that O_DIRECT accepts on fd (512 or more); 0: it refuses all. */
uint32_t backend_fd_direct_align(int fd);
/* 0; or -EINVAL with "PATH: N bytes is not a multiple of block_size M" or the like in *error. */
int backend_fd_check_size(const struct backend_config *config, uint64_t size, struct error *error);
/* Fills *error with "PATH: ..."; returns r. */
__attribute__((format(printf, 4, 5))) int backend_fd_refuse(const struct backend_config *config,
							    int r, struct error *error,
							    const char *fmt, ...);
