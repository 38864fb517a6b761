/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of the store behind a namespace: counted by kind and logged, and the last one is stored.
 * So an administrator finds them here instead of on each host. I/O that succeeds costs nothing
 * here.
 *
 * An error degrades the namespace until an administrator acknowledges it (rblkctl clear) or rblkd
 * ends: a person, not a timer, decides whether a disk that failed once is good. Errors that the
 * host retries (IO_ERROR_BUSY) are counted, but degrade nothing.
 */
#pragma once

#include <pthread.h>

#include "base/log.h"
#include "target/export/namespace.h"
#include "transport/wire/fabrics.h"

enum io_error_kind {
	IO_ERROR_READ,
	IO_ERROR_WRITE, /* Write Zeroes, too */
	IO_ERROR_FLUSH,
	IO_ERROR_DISCARD,
	IO_ERROR_SPACE, /* the file system is full, or its quota */
	IO_ERROR_BUSY,	/* temporary: the host retries */
	IO_ERROR_KINDS,
};

struct io_error {
	uint64_t time_s;      /* since 1970 */
	uint64_t lba, blocks; /* blocks 0: no range */
	char host[NVMF_NQN_MAX + 1];
	char operation[24]; /* "write with FUA" */
	char words[96];	    /* the description */
	char name[16];	    /* "ENOSPC" */
};

struct io_errors_figures {
	uint64_t counts[IO_ERROR_KINDS];
	bool is_degraded;
	struct io_error last; /* if there was one */
};

struct io_errors {
	/* Thread: never changes */
	char subnqn[NVMF_NQN_MAX + 1];

	/* Protected by lock, a leaf; pollers take it for errors, control for reading */
	pthread_mutex_t lock;
	struct io_errors_figures figures;
	struct log_limit limit;
	bool is_failure_told; /* the log has it that the store failed for good */
};

/* The NQN of the host that the I/O is for; "": unknown. Poller of the I/O. */
typedef const char *io_errors_host_fn(struct backend_io *io);
/* Control, before the first I/O: sets the function that finds the host. */
void io_errors_find_hosts(io_errors_host_fn *find);
/* Control. Records errors of the namespace's backend, which is open. False: no memory. */
bool io_errors_watch(struct namespace *ns, const char *subnqn);
void io_errors_free(struct namespace *ns); /* accepts one without it */
/* Any thread, when a sync failed with -errno: from now on writes and flushes are refused. */
void namespace_fail(struct namespace *ns, int error);
/* Any thread. A copy of the figures at one moment. */
void io_errors_read(const struct namespace *ns, struct io_errors_figures *ret_figures);
/* Any thread, for an administrator: the namespace is no longer degraded. Returns whether it was. */
bool io_errors_clear(struct namespace *ns);
/* The errors of all kinds together. Pure. */
uint64_t io_errors_total(const struct io_errors_figures *figures);
/* "read", "no_space"... as in JSON. */
const char *io_error_kind_name(enum io_error_kind kind);
