/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I/O on a queue of a volume (volume.h, which includes this): what a front end does on
 * its I/O loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/loop.h"
#include "initiator/io/io_place_state.h"
#include "initiator/io/policy.h"
#include "transport/device.h"

struct volume_queue;

/* Memory of the front end, which I/O uses in place: volume_memory_add. */
struct volume_memory {
	void *base;
	size_t n_bytes;

	/* the volume's own: */
	struct list node;
	struct mr mrs[VOLUME_PATHS_MAX]; /* by a path's index, in its association */
};

enum volume_op {
	VOLUME_READ,
	VOLUME_WRITE,
	VOLUME_FLUSH,
	VOLUME_WRITE_ZEROES,
	VOLUME_TRIM,
	VOLUME_COMPARE_AND_WRITE,
};

enum {
	VOLUME_OPS = VOLUME_COMPARE_AND_WRITE + 1,
};

/* The last I/O that failed. */
struct volume_io_error {
	uint64_t time_s;      /* since 1970 */
	uint64_t lba, blocks; /* blocks 0: of no range */
	char operation[24];   /* "write with FUA" */
	char words[128];      /* "Capacity Exceeded (status 0.81)" */
};

struct volume_io_figures {
	uint64_t n, counts[VOLUME_OPS]; /* I/O that failed, for good */
	struct volume_io_error last;	/* if n */
};

/* Counters of I/O that succeeded; they only grow. */
struct volume_io_stats {
	uint64_t n_bytes;	  /* read or written; of others 0 */
	struct histogram latency; /* from volume_io_submit to done, pauses included; max_ns 0 */
};

enum volume_io_class {
	VOLUME_CLASS_READ,
	VOLUME_CLASS_WRITE,
	VOLUME_CLASS_OTHER,
	VOLUME_CLASSES,
};

/* One I/O; embedded in its owner's request, owned by the queue from submit until done. */
struct volume_io {
	enum volume_op op;
	bool is_fua;	 /* changes but trim: durable at completion */
	bool may_unmap;	 /* write zeroes: may deallocate */
	uint64_t offset; /* bytes, multiple of the block size */
	uint64_t length; /* bytes, multiple of the block size; read, write in a block of the slab:
			  * <= max_io_bytes; compare and write: <= max_compare_bytes; others:
			  * any (split inside) */
	/* Read, write: inside one block taken with volume_buffer_take, or, not NULL, inside memory.
	 * Compare and write: twice length, what must be there and then what takes its place. */
	void *buffer;
	const struct volume_memory *memory;
	/* On the I/O loop, never from inside volume_io_submit. error: 0, or -EIO,
	 * -ENOSPC, -EINVAL, -EPERM (write protected), -EOPNOTSUPP, -ECANCELED; of compare and write
	 * also -EILSEQ (something else is there, and stays) and -ECONNRESET (the connection was
	 * lost meanwhile, so it was done or not; it is over now). May submit again. */
	void (*done)(struct volume_io *io, int error);

	/* the queue's own: */
	struct list node;
	uint64_t submit_ns;
	uint64_t done_bytes;
	uint64_t flush_number; /* flush: of its last sending */
	uint32_t n_retries;
	uint32_t lost_in; /* waits for proof: the association in which it was sent; 0: in none */
	enum io_place place;
	bool is_cancelled;
	int error;
	void *command;
};

/* I/O loop. */
void volume_io_submit(struct volume_queue *queue, struct volume_io *io);
/* I/O loop; submitted and not done. True: the I/O is not on the wire and is never sent; done
 * follows with -ECANCELED, not from inside. False: it is on the wire; done follows with its
 * result, or with -ECANCELED if it ends without an answer (the connection to the target broke)
 * or would have to be sent again or further. A second call has no effect. */
bool volume_io_cancel(struct volume_queue *queue, struct volume_io *io);
/* I/O loop. run is called before I/O that was held while the queue was not connected, or the
 * path not served, is sent: the last moment at which it can be cancelled. */
void volume_io_set_before_held(struct volume_queue *queue, void (*run)(void *context),
			       void *context);

enum {
	VOLUME_RUNS_MAX = 2, /* of one answer */
};

struct volume_run {
	uint64_t length; /* > 0 */
	bool is_hole;	 /* no data, reads as zeroes; otherwise it may hold data */
};

/* A question: which parts of a range are holes. Embedded in its owner's request, and owned by the
 * volume from volume_extents_ask until done. */
struct volume_extents {
	uint64_t offset, length; /* bytes, multiples of the block size; length > 0 */
	/* On the I/O loop, never from inside volume_extents_ask, and soon while the volume is not
	 * connected. runs: from offset on, in bytes, within the range; they may describe less. */
	void (*done)(struct volume_extents *ask);
	unsigned n; /* at least 1 */
	struct volume_run runs[VOLUME_RUNS_MAX];

	/* the volume's own: */
	struct volume_queue *queue;
	struct list node;
	struct loop_msg msg;
};

/* I/O loop. */
void volume_extents_ask(struct volume_queue *queue, struct volume_extents *ask);

/* I/O loop. Registered memory of the queue's slab: n_bytes <= max_io_bytes, 4 KiB
 * aligned. NULL when none is free. */
void *volume_buffer_take(struct volume_queue *queue, size_t n_bytes);
void volume_buffer_give(struct volume_queue *queue, void *buffer);
/* Calls waiter->run once, from the I/O loop, when a buffer was given back after
 * volume_buffer_take failed. FIFO among waiters. Re-arm to be called again. */
void volume_buffer_wait(struct volume_queue *queue, struct loop_call *waiter);
void volume_buffer_wait_cancel(struct volume_queue *queue, struct loop_call *waiter);
