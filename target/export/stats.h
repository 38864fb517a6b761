/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters and histograms of I/O commands. One poller writes each counter with plain stores, and
 * the control thread reads it at any time, so there is no lock. A queue has its own counters, a
 * namespace has a set for each poller, and association/host_stats.h adds up those of a host's
 * queues.
 *
 * The histogram holds the time from the arrival of a capsule to the post of its response
 * (engine/record/timing.h). The stages are added up for one of STATS_SAMPLE commands, and for all
 * commands while slow ones are logged (slow_io).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/bits.h"
#include "transport/wire/nvme.h"

enum stats_class {
	STATS_OTHER,		     /* Flush, Write Zeroes, Compare and so on */
	STATS_WRITE = NVME_IO_WRITE, /* equal to the opcodes, to avoid a branch */
	STATS_READ = NVME_IO_READ,
	STATS_CLASSES,
};

enum stats_stage {
	STAGE_RECEIVE, /* parsing, and waiting for buffers, credits or a turn */
	STAGE_FETCH,   /* the RDMA READ of its data */
	STAGE_BACKEND,
	STAGE_SEND, /* waiting for a send-queue slot; of a Read also until its data was sent */
	STAGES,
};

enum {
	STATS_SAMPLE = 16,
	/* The part of struct histogram's steps from 256 ns to 68 s. */
	STATS_FIRST_BIT = 8,
	STATS_LAST_BIT = 36,
	STATS_FIRST_STEP = (STATS_FIRST_BIT - 3) * HISTOGRAM_SUB,
	STATS_STEPS = (STATS_LAST_BIT - STATS_FIRST_BIT) * HISTOGRAM_SUB,
};

/* The counters of one class of commands. */
struct io_stats {
	uint64_t n_errors, sum_ns;
	uint64_t n_sampled, stage_ns[STAGES]; /* of commands with recorded stages */
	uint64_t counts[STATS_STEPS];	      /* commands by duration */
};

/* The counts of one queue. */
struct queue_counters {
	uint64_t n_commands, n_reads, n_writes, read_bytes, written_bytes, n_errors;
};

/* The counts of one poller for one namespace. */
struct namespace_stats {
	_Alignas(64) struct io_stats io[STATS_CLASSES];
};

/* The index in counts of a duration; shorter and longer ones are in the first and the last. */
static inline unsigned stats_step(uint64_t ns)
{
	const uint64_t least = 1ULL << STATS_FIRST_BIT, end = 1ULL << STATS_LAST_BIT;
	unsigned bit;

	if (UNLIKELY(ns - least >= end - least))
		return ns < least ? 0 : STATS_STEPS - 1;
	bit = log2_floor(ns);
	return HISTOGRAM_SUB * (bit - STATS_FIRST_BIT - 1) + (unsigned)(ns >> (bit - 4));
}

/* Control. Adds the counters of `from`; only the caller uses `into`. */
void io_stats_merge(struct io_stats *into, const struct io_stats *from);
/* The commands counted, and their durations. stats: the caller's own, such as a sum. */
uint64_t io_stats_count(const struct io_stats *stats);
void io_stats_histogram(const struct io_stats *stats, struct histogram *ret_histogram);

/* As in JSON: "read", "write"...; "receive", "fetch"... */
const char *stats_class_name(enum stats_class class);
const char *stats_stage_name(enum stats_stage stage);
