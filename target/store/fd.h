/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What files and block devices have in common: I/O on a file descriptor. For file.c and device.c
 * only; each adds how to open it, and how to make zeroes and holes.
 */
#pragma once

#include <stdatomic.h>

#include "target/store/thread.h"

struct backend_fd {
	struct backend backend;
	/* Thread: control writes, in open; any reads */
	int fd;		  /* owned */
	bool is_direct;	  /* O_DIRECT: fit for libaio; else worker threads */
	bool can_be_full; /* a disk with so many places, for which a submit would wait */
	bool is_shared;	  /* another rblkd may have it, too */
	char *path;	  /* owned */
	/* On a worker thread; 0 or -errno, -EOPNOTSUPP when it cannot. */
	int (*zero)(struct backend_fd *disk, uint64_t offset, uint64_t n, bool may_unmap);
	int (*discard)(struct backend_fd *disk, uint64_t offset, uint64_t n);
	/* Any thread */
	_Atomic bool lacks_dsync; /* the kernel refused RWF_DSYNC: write, then sync */
	_Atomic bool lacks_aio_sync;
};

/* The ops of both. */
void backend_fd_submit(struct backend *backend, struct backend_thread *thread,
		       struct backend_io *io);
void backend_fd_close(struct backend *backend); /* accepts half-built ones */

struct backend_fd *backend_fd_new(const struct backend_ops *ops, const char *path);

/*
 * open(2), without following symbolic links where must_not_follow; and never through
 * /proc's magic links. Returns the file descriptor, or -errno.
 */
int backend_fd_open(const char *path, int flags, bool must_not_follow);
/* The smallest transfer that O_DIRECT accepts on fd (512 or more); 0: it refuses all. */
uint32_t backend_fd_direct_align(int fd);
/* "PATH: N bytes is not a multiple of block_size M" and its like: 0 or -EINVAL. */
int backend_fd_check_size(const struct backend_config *config, uint64_t size, char *why, size_t n);
/* Puts "PATH: ..." into why; returns r. */
__attribute__((format(printf, 5, 6))) int backend_fd_refuse(const struct backend_config *config,
							    int r, char *why, size_t n,
							    const char *fmt, ...);
