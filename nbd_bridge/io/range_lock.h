/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks byte ranges of a volume between the threads that write to it: writes of whole
 * blocks share, a read-modify-write of one block excludes them. See range_lock.c.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

enum {
	RANGE_STRIPES = 64, /* bits of range_waiter.wanted */
	RANGE_STRIPE_SHIFT = 20,
};

struct range_stripe {
	/* Thread: any */
	_Alignas(64) _Atomic uint64_t word; /* holders and flags, see range_lock.c */
	pthread_mutex_t mutex;		    /* guards waiters; held for moments, takes no other */
	struct list waiters;		    /* of struct range_waiter, FIFO */
};

struct range_lock {
	struct range_stripe stripes[RANGE_STRIPES];
};

/* One holder or would-be holder; embedded in what it protects. */
struct range_waiter {
	/* Thread: the loop's, but node while waiting: under the stripe's mutex */
	void (*on_granted)(struct range_waiter *waiter);
	struct range_lock *lock;
	struct loop *loop;
	struct loop_msg msg;
	struct list node;
	uint64_t wanted, held; /* one bit a stripe */
	bool is_exclusive;
};

void range_lock_init(struct range_lock *lock);
void range_lock_deinit(struct range_lock *lock);

/*
 * Returns true when the range is held at once; else on_granted is called later on loop,
 * never from inside. A waiter cannot give up: it is always granted in the end, for
 * holders always release.
 */
bool range_lock_acquire(struct range_lock *lock, struct range_waiter *waiter, uint64_t offset,
			uint64_t length, bool is_exclusive);
/* On the waiter's loop. */
void range_lock_release(struct range_waiter *waiter);
