/* SPDX-License-Identifier: BSD-3-Clause */
/* One I/O of a backend (backend.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

struct backend;

enum backend_op {
	BACKEND_READ,
	BACKEND_WRITE,
	BACKEND_FLUSH,
	BACKEND_WRITE_ZEROES,
	BACKEND_DISCARD,
	BACKEND_N_OPS,
};

/* The purpose of an I/O; io_errors.h finds its host by this. */
enum backend_purpose {
	BACKEND_FOR_COMMAND,  /* embedded in a request */
	BACKEND_FOR_SHUTDOWN, /* embedded in a controller that a host shuts down */
	BACKEND_FOR_END,      /* rblkd ends in order: last_sync.h */
};

/* One I/O, embedded in the request; the backend owns it from submit until done. */
struct backend_io {
	enum backend_op op;
	bool is_fua;		 /* any change: durable at completion */
	bool may_unmap;		 /* write zeroes: holes are allowed */
	uint64_t offset, length; /* bytes; multiples of the block size, checked by the caller */
	void *buffer;		 /* read, write: length bytes, aligned to 4 KiB */
	enum backend_purpose purpose;
	bool is_out;   /* the backend has it: from backend_submit until done */
	bool is_short; /* for on_error: the store ends before this io */
	/* On the submitter's loop, never from inside submit. error: 0, or -errno; a short transfer
	 * is -EIO, never success (reliability rule R4). */
	void (*done)(struct backend_io *io, int error);

	/* for the backend while it has the io: */
	struct list node;
	struct loop_msg msg;
	struct loop *loop;
	struct backend *backend;
	uint64_t n_done; /* bytes transferred so far */
	int result;
	uint64_t private[13]; /* a struct backend_step */
};
