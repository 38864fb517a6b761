/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hazard: a client writes 512 bytes of a 4096-byte block, so we read the block, change it and
 * write it back; a write to the same block that completes in between, on this connection or
 * another, would be undone. So each write holds its range shared, and each read-modify-write holds
 * its block exclusively.
 *
 * The volume is cut into pieces of 1 MiB, which are dealt out to 64 stripes. A range holds every
 * stripe it touches, taken in ascending order, so two waiters never wait for each other. A stripe
 * is one word:
 *
 *     EXCLUSIVE | WAITING | number of shared holders
 *
 * The happy path of a write is one compare-and-swap, and one subtraction to release. WAITING sends
 * all threads to the slow path, under the stripe's mutex: newcomers queue up behind (so that a
 * stream of writes cannot starve a read-modify-write), the last holder grants to the first in the
 * queue.
 *
 * Invariant: WAITING is set while waiters is not empty, and set or cleared only under the mutex. No
 * grant is missed: a waiter sets WAITING before it reads the holders, a releasing thread removes
 * its hold before it reads WAITING; both are sequentially consistent, so one of them sees the
 * other.
 */
#include "base/bits.h"
#include "base/check.h"
#include "nbd_bridge/io/range_lock.h"

#define EXCLUSIVE (1ULL << 63)
#define WAITING	  (1ULL << 62)

void range_lock_init(struct range_lock *lock)
{
	for (unsigned i = 0; i < RANGE_STRIPES; i++) {
		struct range_stripe *stripe = &lock->stripes[i];

		atomic_init(&stripe->word, 0);
		pthread_mutex_init(&stripe->mutex, NULL);
		list_init(&stripe->waiters);
	}
}

void range_lock_deinit(struct range_lock *lock)
{
	for (unsigned i = 0; i < RANGE_STRIPES; i++) {
		check(atomic_load(&lock->stripes[i].word) == 0);
		pthread_mutex_destroy(&lock->stripes[i].mutex);
	}
}

static uint64_t stripes_of(uint64_t offset, uint64_t length)
{
	uint64_t first = offset >> RANGE_STRIPE_SHIFT;
	uint64_t n = ((offset + length - 1) >> RANGE_STRIPE_SHIFT) - first + 1;
	unsigned shift = first % RANGE_STRIPES;
	uint64_t mask;

	if (n >= RANGE_STRIPES)
		return UINT64_MAX;
	mask = (1ULL << n) - 1;
	return shift ? mask << shift | mask >> (RANGE_STRIPES - shift) : mask;
}

static bool try_fast(struct range_stripe *stripe, bool is_exclusive)
{
	uint64_t word = 0;

	if (is_exclusive)
		return atomic_compare_exchange_strong(&stripe->word, &word, EXCLUSIVE);
	word = atomic_load_explicit(&stripe->word, memory_order_relaxed);
	while (!(word & (EXCLUSIVE | WAITING)))
		if (atomic_compare_exchange_weak(&stripe->word, &word, word + 1))
			return true;
	return false;
}

/* Under the mutex. Can the stripe be given to such a waiter, the first in the queue? */
static bool is_grantable(const struct range_stripe *stripe, bool is_exclusive)
{
	uint64_t word = atomic_load(&stripe->word);

	return is_exclusive ? (word & ~WAITING) == 0 : !(word & EXCLUSIVE);
}

/* Under the mutex, WAITING set. Returns whether self was among those granted. */
static bool grant(struct range_stripe *stripe, const struct range_waiter *self)
{
	bool is_self_granted = false;

	while (!list_is_empty(&stripe->waiters)) {
		struct range_waiter *waiter = list_entry(stripe->waiters.next, struct range_waiter,
							 node);

		if (!is_grantable(stripe, waiter->is_exclusive))
			return is_self_granted;
		atomic_fetch_add(&stripe->word, waiter->is_exclusive ? EXCLUSIVE : 1);
		list_remove(&waiter->node);
		if (waiter == self)
			is_self_granted = true;
		else
			loop_send(waiter->loop, &waiter->msg);
	}
	atomic_fetch_and(&stripe->word, ~WAITING);
	return is_self_granted;
}

static bool acquire_slow(struct range_stripe *stripe, struct range_waiter *waiter)
{
	bool is_granted;

	pthread_mutex_lock(&stripe->mutex);
	list_add_tail(&stripe->waiters, &waiter->node);
	atomic_fetch_or(&stripe->word, WAITING);
	is_granted = grant(stripe, waiter);
	pthread_mutex_unlock(&stripe->mutex);
	return is_granted;
}

/* Takes the stripes still wanted, lowest first; false: waits in a queue. */
static bool acquire_rest(struct range_waiter *waiter)
{
	while (waiter->wanted) {
		unsigned i = (unsigned)__builtin_ctzll(waiter->wanted);
		struct range_stripe *stripe = &waiter->lock->stripes[i];

		/* Before the attempt: once queued, the waiter belongs to the granting thread. */
		waiter->wanted &= ~(1ULL << i);
		waiter->held |= 1ULL << i;
		if (!try_fast(stripe, waiter->is_exclusive) && !acquire_slow(stripe, waiter))
			return false;
	}
	return true;
}

static void on_granted_stripe(struct loop_msg *msg)
{
	struct range_waiter *waiter = container_of(msg, struct range_waiter, msg);

	if (acquire_rest(waiter))
		waiter->on_granted(waiter);
}

bool range_lock_acquire(struct range_lock *lock, struct range_waiter *waiter, uint64_t offset,
			uint64_t length, bool is_exclusive)
{
	check(length > 0);
	waiter->lock = lock;
	waiter->msg.run = on_granted_stripe;
	waiter->is_exclusive = is_exclusive;
	waiter->wanted = stripes_of(offset, length);
	waiter->held = 0;
	return acquire_rest(waiter);
}

static void release_stripe(struct range_stripe *stripe, bool is_exclusive)
{
	uint64_t word = atomic_fetch_sub(&stripe->word, is_exclusive ? EXCLUSIVE : 1);

	word -= is_exclusive ? EXCLUSIVE : 1;
	if (word != WAITING) /* no waiters, or others still share */
		return;
	pthread_mutex_lock(&stripe->mutex);
	grant(stripe, NULL);
	pthread_mutex_unlock(&stripe->mutex);
}

void range_lock_release(struct range_waiter *waiter)
{
	check(!waiter->wanted);
	while (waiter->held) {
		unsigned i = (unsigned)__builtin_ctzll(waiter->held);

		waiter->held &= ~(1ULL << i);
		release_stripe(&waiter->lock->stripes[i], waiter->is_exclusive);
	}
}
