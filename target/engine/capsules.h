/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last command capsules of each queue, with what became of them: what one wants to see when a
 * host broke the protocol, or when rblkd broke down. The 64 bytes of the command are kept and none
 * of its data, so names and secrets of hosts never get here.
 *
 * A queue has a ring, out of memory that is mapped at start and stays where it is: who looks at it
 * while the program dies (fatal.c) follows no pointer that may be wrong. A record is written twice,
 * by the queue's poller, with plain stores: when the capsule comes and when its response is posted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/log.h"
#include "base/ticks.h"
#include "transport/wire/fabrics.h"

struct target;

enum {
	CAPSULES_KEPT = 32, /* a power of 2 */
	CAPSULES_SAID = 8,  /* in the log, of a queue that broke the protocol */
	CAPSULE_UNANSWERED = 0xffff,
};

struct capsule {
	struct nvme_sqe sqe;
	uint64_t received; /* ticks; 0: nothing is here */
	uint64_t took;	   /* ticks, until the response was posted */
	unsigned status;   /* enum nvme_status of it, or CAPSULE_UNANSWERED */
};

struct capsule_ring {
	/* Thread: control */
	bool is_used;
	struct capsule_ring *next; /* of those that are free */
	uint16_t qid;
	char remote[ADDR_STRING_MAX];
	/* Thread: the queue's poller */
	uint16_t cntlid; /* 0: it has no association yet */
	char hostnqn[NVMF_NQN_MAX + 1];
	unsigned n_last; /* when it failed; control reads them then */
	struct capsule last[CAPSULES_SAID];
	struct capsule capsules[CAPSULES_KEPT];
};

/* Control. Room for all connections that may be. 0 or -errno. */
int capsules_init(struct target *target);
void capsules_deinit(struct target *target); /* accepts a zeroed one */
/* Control. The queue's ring; NULL when there are more connections than may be. */
struct capsule_ring *capsules_take(struct target *target, uint16_t qid, const char *remote);
void capsules_give(struct target *target, struct capsule_ring *ring); /* accepts NULL */

/* Poller. A capsule has come, the nth of its queue. */
static inline struct capsule *capsules_add(struct capsule_ring *ring, uint64_t n,
					   const struct nvme_sqe *sqe, uint64_t now)
{
	struct capsule *capsule = &ring->capsules[n % CAPSULES_KEPT];

	capsule->sqe = *sqe;
	capsule->received = now;
	capsule->status = CAPSULE_UNANSWERED;
	return capsule;
}

/* Poller. The response is about to be posted; the record may be another capsule's by now. */
static inline void capsule_answered(struct capsule *capsule, uint64_t received, unsigned status,
				    uint64_t took)
{
	if (capsule->received != received)
		return;
	capsule->status = status;
	capsule->took = took;
}

/* Poller. Its queue belongs to an association. */
void capsules_name(struct capsule_ring *ring, uint16_t cntlid, const char *hostnqn);
/* Poller. The queue fails: keeps a copy of the last ones for the log. */
void capsules_keep_last(struct capsule_ring *ring);
/* Control, after that. limit: of those who could flood the log; NULL: none. */
void capsules_log(const struct capsule_ring *ring, struct log_limit *limit);

/* Those that are there, oldest first, at most max of them, the newest. Returns how many. */
unsigned capsules_sort(const struct capsule_ring *ring, unsigned max,
		       const struct capsule *ret_sorted[CAPSULES_KEPT]);
/* Of every ring in use; for the handler of a fatal signal. */
void capsules_dump(const struct target *target, int fd);
