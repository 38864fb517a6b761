/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread of rblk bench: one or several queues of librblk, a number of I/Os kept in flight on
 * each.
 *
 * Control makes it, adds queues, starts it, starts the measurement, stops it and frees it; between
 * start and stopped the worker's own thread owns it. I/O runs from start to stop; only I/O that
 * completes between measure and stop is counted.
 */
#pragma once

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/crowd.h"
#include "base/histogram.h"
#include "base/loop.h"
#include "base/patience.h"
#include "library/rblk.h"

enum {
	BENCH_DEPTH_MAX = 1024,
	BENCH_QUEUES_MAX = 64,
};

/* The load of every worker; read-only while they run. */
struct bench_load {
	bool is_random, is_write;
	size_t block_bytes;
	unsigned depth; /* of each queue */
	uint64_t spin_ns;
	uint64_t size_bytes;
};

struct bench_queue;

struct bench_io {
	struct rblk_io io;
	struct bench_queue *queue;
	uint64_t started_ns;
};

struct bench_queue {
	/* Thread: worker between start and stopped, control otherwise */
	struct bench_worker *worker;
	struct rblk_queue *rblk; /* owned */
	struct bench_io *ios;	 /* owned: depth of them */
	char *memory;		 /* borrowed: their data, one behind the other */
	struct rblk_memory *registered;
	uint64_t random, next;
	uint64_t n_done; /* while measuring; control reads it (counter.h) */
};

struct bench_worker {
	/* Thread: worker between start and stopped, control otherwise */
	const struct bench_load *load; /* borrowed */
	pthread_t thread;
	struct bench_queue *queues; /* owned */
	struct pollfd *fds;	    /* owned; of the queues, to sleep on several */
	unsigned n_queues;
	uint64_t n_in_flight;
	struct patience patience; /* of several queues */
	struct crowd crowd;
	struct histogram latency; /* while measuring */
	uint64_t n_errors;
	struct loop *control;
	struct loop_msg stopped;
	void *context; /* the owner's */

	/* Control writes, the worker reads */
	_Atomic bool must_measure, must_stop;
};

/* Memory of a queue. */
struct bench_memory {
	char *base;
	struct rblk_memory *registered; /* that holds it */
};

/* Control. on_stopped runs on the control loop when nothing is in flight any more. 0 or -errno. */
int bench_worker_init(struct bench_worker *worker, const struct bench_load *load, unsigned n_queues,
		      struct loop *control, void (*on_stopped)(struct loop_msg *msg),
		      void *context);
/* Control. Opens a queue of the volume as the worker's queue i; seed differs between queues. 0 or
 * -errno with *error. */
int bench_worker_add_queue(struct bench_worker *worker, struct rblk_volume *volume, unsigned i,
			   unsigned seed, struct bench_memory memory, struct rblk_error *error);
/* Control. 0 or -errno. */
int bench_worker_start(struct bench_worker *worker);
/* Control. Forgets what was counted so far. */
void bench_worker_measure(struct bench_worker *worker);
/* Control. */
void bench_worker_stop(struct bench_worker *worker);
/* Control, after on_stopped: ends the thread. */
void bench_worker_join(struct bench_worker *worker);
/* Control. Closes the queues; the figures stay until deinit. Accepts a zeroed worker. */
void bench_worker_close(struct bench_worker *worker);
/* Control. Accepts a zeroed worker. */
void bench_worker_deinit(struct bench_worker *worker);
