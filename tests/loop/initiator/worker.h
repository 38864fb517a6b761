/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread of volume_exercise: a queue, and a region of the namespace that no other thread
 * touches. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/histogram.h"
#include "initiator/control/volume.h"

enum {
	OPS = VOLUME_TRIM + 1,
	DEPTH_MAX = 256,
};

struct plan {
	unsigned depth;
	uint64_t seed;
	_Atomic bool is_over; /* control sets it: no new I/O is started */
	uint32_t max_io_bytes;
	bool is_fresh; /* the namespace reads as zeroes at the start */
	bool reads_only;
	struct volume_info info;
};

struct worker;

struct job {
	struct volume_io io;
	struct worker *worker;
	struct loop_call waiter; /* for a buffer */
	uint64_t first, n;	 /* blocks of the region; n 0: idle, or a flush */
	uint64_t stamp;
	bool is_busy;
	bool is_final; /* of the last read of everything */
};

struct worker {
	/* The thread's own fields, unless a line adds otherwise. */
	pthread_t thread;
	struct loop loop;
	struct volume_queue *queue; /* set before the thread starts */
	const struct plan *plan;
	uint64_t start_block, n_blocks; /* the region */
	uint64_t *state;		/* owned: what each block holds */
	uint64_t random, n_stamps, at_final;
	struct job jobs[DEPTH_MAX];
	unsigned n_busy;
	bool is_finishing;
	struct loop_call begin;
	struct loop_msg done_msg; /* to control: everything was done */
	struct loop *control;
	/* read by control after done_msg */
	uint64_t n_ops[OPS], n_bytes, n_errors, n_mismatches;
	struct histogram latency[OPS];
};

int worker_start(struct worker *worker);
/* Control, after the queue was removed. */
void worker_join(struct worker *worker);
