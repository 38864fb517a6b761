/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last command capsules of each queue, with their outcome: for the log when a host breaks the
 * protocol, and when rblkd itself crashes. A record has the 64 bytes of the command and none of its
 * data, so names and secrets of hosts never get here.
 *
 * Each queue has a ring. All rings are in memory that is mapped at start and never moves, so the
 * handler of a fatal signal (fatal.c) follows no pointer that may be wrong. The queue's poller
 * writes a record twice, with plain stores: when the capsule arrives and when its response is
 * posted.
 *
 * Owner: struct capsules, of the target, owns all rings; a queue borrows one.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/ticks.h"
#include "transport/wire/fabrics.h"

struct target;

enum {
	CAPSULES_KEPT = 32, /* a power of 2 */
	CAPSULES_SAID = 8,  /* logged of a queue that broke the protocol */
	CAPSULE_UNANSWERED = 0xffff,
};

static_assert(!(CAPSULES_KEPT & (CAPSULES_KEPT - 1)), "capsules_add divides by a shift");
static_assert(CAPSULES_SAID <= CAPSULES_KEPT, "capsules_keep_last sorts what is kept");

struct capsule {
	struct nvme_sqe sqe;
	uint64_t received; /* ticks; 0: an empty record */
	uint64_t took;	   /* ticks, until the response was posted */
	unsigned status;   /* enum nvme_status of the response, or CAPSULE_UNANSWERED */
};

struct capsule_ring {
	/* Thread: control */
	bool is_used;
	struct capsule_ring *next; /* in the list of free rings */
	uint16_t qid;
	char remote[ADDR_STRING_MAX];
	/* Thread: the queue's poller */
	uint16_t cntlid; /* 0: not yet in an association */
	char hostnqn[NVMF_NQN_MAX + 1];
	unsigned n_last; /* number of records in last[]; control reads them after the failure */
	struct capsule last[CAPSULES_SAID];
	struct capsule capsules[CAPSULES_KEPT];
};

/* Control. Maps rings for the largest number of connections. 0 or -errno. */
int capsules_init(struct target *target);
void capsules_deinit(struct target *target); /* accepts a zeroed one */
/* Control. A ring for a new queue; NULL beyond the largest number of connections. */
struct capsule_ring *capsules_take(struct target *target, uint16_t qid, const char *remote);
void capsules_give(struct target *target, struct capsule_ring *ring); /* accepts NULL */

/* Poller. Records a capsule that arrived, the nth of its queue. */
static inline struct capsule *capsules_add(struct capsule_ring *ring, uint64_t n,
					   const struct nvme_sqe *sqe, uint64_t now)
{
	struct capsule *capsule = &ring->capsules[n % CAPSULES_KEPT];

	capsule->sqe = *sqe;
	capsule->received = now;
	capsule->status = CAPSULE_UNANSWERED;
	return capsule;
}

/* Poller, just before it posts the response. The record may be another capsule's by now. */
static inline void capsule_answered(struct capsule *capsule, uint64_t received, unsigned status,
				    uint64_t took)
{
	if (capsule->received != received)
		return;
	capsule->status = status;
	capsule->took = took;
}

/* Poller. The queue has joined an association. */
void capsules_name(struct capsule_ring *ring, uint16_t cntlid, const char *hostnqn);
/* Poller. The queue fails: copies its last records for the log. */
void capsules_keep_last(struct capsule_ring *ring);
/* Control. Logs what capsules_keep_last has copied; without that, the newest as they are. limit:
 * for queues whose hosts could flood the log; may be NULL. */
void capsules_log(const struct capsule_ring *ring, struct log_limit *limit);

/* The newest records, at most max of them, the oldest first. Returns their number. */
unsigned capsules_sort(const struct capsule_ring *ring, unsigned max,
		       const struct capsule *ret_sorted[CAPSULES_KEPT]);
/* Writes every ring in use to fd. Async-signal-safe, for the handler of a fatal signal. */
void capsules_dump(const struct target *target, int fd);
