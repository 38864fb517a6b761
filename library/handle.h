/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The volume and the queue of the library from inside. rblk.h is the face; each file here has a
 * part: volume_handle, queue_handle and path_handle, submit (and what has ended), departure,
 * keeper, descriptor, memory_handle and cache, status, message.
 *
 * A queue's loop has no thread of its own. It runs in the thread that has taken the queue: the
 * caller's within a call, or the control thread's (keeper) while the caller is away.
 */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/bits.h"
#include "initiator/control/volume.h"
#include "library/departure.h"
#include "library/rblk.h"

struct cache;
struct outcome;

struct rblk_volume {
	/* Thread: control */
	struct volume *volume;
	struct list queues; /* of struct rblk_queue (node) */
	struct loop_timer keeper;
	struct outcome *waiting; /* the call that waits for control; between its calls its own */

	/* Read-only once it is open */
	char name[VOLUME_NQN_MAX + 16]; /* "NQN/NSID" */
	uint64_t spin_ns;
	uint32_t block_mask;
	struct cache *cache; /* owned; NULL: each I/O without memory registers its own */

	/* Thread: any, under lock */
	pthread_mutex_t lock;
	struct volume_info info;
	struct list memories; /* of struct rblk_memory (node), owned */
	/* Unregistered, owned: kept for a while, the oldest first, so a late use is refused. */
	struct list ended_memories;
	unsigned n_ended_memories;
	unsigned n_queues;

	/* Thread: any. Copies from info, for each I/O. */
	_Atomic uint64_t size_bytes;
	_Atomic uint32_t max_compare_bytes;
};

struct rblk_queue {
	/* Read-only */
	struct rblk_volume *volume; /* borrowed */
	struct volume_queue *queue;
	/* Thread: control */
	struct list node;

	_Atomic bool is_taken; /* by the caller's thread or the keeper; guards what follows */
	struct loop loop;
	struct rblk_io *ended, **ended_end; /* in order, by rblk_io's next */
	bool is_armed;			    /* rblk_arm: the caller sleeps on the loop's epoll_fd */
	bool has_fd;
	struct loop_fd ready, alarm; /* an eventfd of the keeper, a timerfd; after rblk_fd */
	uint64_t alarm_ns;	     /* to which the timer is set */
	bool is_removed;
	struct loop_msg removed_msg;
	struct errand errand;

	/* Thread: the caller's */
	struct rblk_io *reported; /* taken out of ended, to be reported */
	bool has_now;		  /* loop.now_ns is fresh enough to date an I/O */
	bool has_unsent;
	uint32_t n_outstanding;
};

/* The contents of rblk_io.internal. */
struct io_part {
	union {
		struct volume_io io;
		struct volume_extents extents; /* of RBLK_EXTENTS */
	};
	struct rblk_queue *queue;
	struct rblk_io *next;
	struct volume_memory memory; /* of this I/O alone, while registered */
	struct volume_memory *held;  /* &memory, or one of the cache's; NULL: the caller's */
};
_Static_assert(sizeof(struct io_part) <= sizeof(((struct rblk_io *)0)->internal),
	       "room for io_part");

/* Any thread. */
static inline struct io_part *io_part_of(struct rblk_io *io)
{
	return (struct io_part *)(void *)io->internal;
}

static inline struct rblk_io *io_of_part(struct io_part *part)
{
	return container_of(part, struct rblk_io, internal);
}

/* The queue's loop is the caller's until queue_leave; the other side keeps it for microseconds. */
static inline bool queue_try_enter(struct rblk_queue *queue)
{
	return !atomic_exchange_explicit(&queue->is_taken, true, memory_order_acquire);
}

static inline void queue_enter(struct rblk_queue *queue)
{
	while (UNLIKELY(!queue_try_enter(queue)))
		sched_yield();
}

static inline void queue_leave(struct rblk_queue *queue)
{
	atomic_store_explicit(&queue->is_taken, false, memory_order_release);
}
