/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread of rblk bench: a loop, one or several I/O queues, a number of I/Os kept in flight on
 * each.
 *
 * Control makes it, adds queues, starts it, starts the measurement, stops it and frees it; between
 * start and stop the worker's own thread owns it. I/O runs from start to stop; only I/O that
 * completes between measure and stop is counted.
 */
#pragma once

#include <pthread.h>

#include "base/histogram.h"
#include "initiator/control/volume.h"

enum {
	BENCH_DEPTH_MAX = 1024,
};

/* What every worker does; read-only while they run. */
struct bench_load {
	bool is_random, is_write;
	size_t block_bytes;
	unsigned depth; /* of each queue */
	uint64_t spin_ns;
	uint64_t size_bytes;
};

struct bench_queue;

struct bench_io {
	struct volume_io io;
	struct bench_queue *queue;
	uint64_t started_ns;
};

struct bench_queue {
	/* Thread: worker between start and stopped, control otherwise */
	struct bench_worker *worker;
	struct volume_queue *volume; /* borrowed */
	struct bench_io *ios;	     /* owned: depth of them */
	unsigned n_in_flight;
	uint64_t random, next;
	uint64_t n_done; /* while measuring; control reads it (counter.h) */
};

struct bench_worker {
	/* Thread: worker between start and stopped, control otherwise */
	const struct bench_load *load; /* borrowed */
	struct loop loop;
	pthread_t thread;
	struct bench_queue *queues; /* owned */
	unsigned n_queues, n_running;
	bool must_stop;
	struct histogram latency; /* while measuring */
	uint64_t n_errors;
	struct loop *control;
	struct loop_msg begin, measure, stop, stopped;
	void *context; /* the owner's */
};

/* Control. on_stopped runs on the control loop when nothing is in flight any more. 0 or -errno. */
int bench_worker_init(struct bench_worker *worker, const struct bench_load *load, unsigned n_queues,
		      struct loop *control, void (*on_stopped)(struct loop_msg *msg),
		      void *context);
/* Control. Adds a queue of the volume as the worker's queue i; seed differs between queues. 0 or
 * -errno. */
int bench_worker_add_queue(struct bench_worker *worker, struct volume *volume, unsigned i,
			   unsigned seed);
/* Control. 0 or -errno. */
int bench_worker_start(struct bench_worker *worker);
/* Control. Forgets what was counted so far. */
void bench_worker_measure(struct bench_worker *worker);
/* Control. */
void bench_worker_stop(struct bench_worker *worker);
/* Control, after the queues were removed. The figures stay until deinit. */
void bench_worker_join(struct bench_worker *worker);
/* Control. Accepts a zeroed worker. */
void bench_worker_deinit(struct bench_worker *worker);
