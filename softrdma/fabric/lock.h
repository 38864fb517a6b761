/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks in shared memory, which survive the death of their holder. Any thread of any process that
 * maps the segment takes one, for the length of one transaction at most. A thread that takes a lock
 * over from a dead process repairs the structure that the lock guards. Not recursive; README.md has
 * the order of locks.
 */
#pragma once

#include "softrdma/fabric/seg.h"
#include "softrdma/process/api.h"

/* Identity of this process in lock words. Set by sr_lock_init(), 0 before. */
extern uint64_t sr_lock_self;

/* Sets sr_lock_self. Once a process, and again in a child after fork. */
void sr_lock_init(void);
/* Whether the process behind a lock identity still runs (a zombie does not). */
bool sr_lock_owner_alive(uint64_t owner);
/* The contended path. True if the lock was taken over from a dead process. */
bool sr_lock_slow(struct seg_lock *l);
/* Waits until the present holder has released the lock (or died). */
void sr_lock_quiesce(struct seg_lock *l);

/* True: the previous holder died inside; the caller repairs what it guards. */
static inline bool sr_lock_take(struct seg_lock *l)
{
	uint64_t none = 0;

	if (LIKELY(atomic_compare_exchange_strong_explicit(
		    &l->owner, &none, sr_lock_self, memory_order_seq_cst, memory_order_relaxed)))
		return false;
	return sr_lock_slow(l);
}

/* The thread that took it. */
static inline void sr_lock_give(struct seg_lock *l)
{
	atomic_store_explicit(&l->owner, 0, memory_order_release);
}
