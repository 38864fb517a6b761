/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The range lock between real threads: exclusion, progress, and that each request is granted
 * exactly once. Each thread runs a loop and keeps some requests active; a table of bytes records
 * which request holds each block.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "nbd_bridge/io/range_lock.h"

enum {
	THREADS = 4,
	HOLDERS = 6,   /* requests of a thread */
	ROUNDS = 4000, /* of a thread */
	CELLS = 80,    /* stripes of the area, and more than the lock has */
	HALF = 1 << (RANGE_STRIPE_SHIFT - 1),
};

static struct range_lock the_lock;
static _Atomic int inside[CELLS]; /* shared holders; EXCLUSIVE while held exclusively */
static _Atomic unsigned n_violations;
#define EXCLUSIVE 1000

struct holder {
	struct range_waiter waiter;
	struct thread *thread;
	struct loop_timer timer;
	unsigned first, n;
};

struct thread {
	pthread_t id;
	struct loop loop;
	struct holder holders[HOLDERS];
	unsigned n_rounds, n_busy, seed, n_at_once;
};

static void begin(struct holder *holder);

static void enter(struct holder *holder)
{
	int add = holder->waiter.is_exclusive ? EXCLUSIVE : 1;

	for (unsigned i = holder->first; i < holder->first + holder->n; i++) {
		int before = atomic_fetch_add(&inside[i], add);

		if (add == EXCLUSIVE ? before != 0 : before >= EXCLUSIVE)
			atomic_fetch_add(&n_violations, 1);
	}
	loop_timer_start(&holder->thread->loop, &holder->timer,
			 (uint64_t)rand_r(&holder->thread->seed) % 50000);
}

static void on_expiry(struct loop_timer *timer)
{
	struct holder *holder = container_of(timer, struct holder, timer);
	struct thread *thread = holder->thread;

	for (unsigned i = holder->first; i < holder->first + holder->n; i++)
		atomic_fetch_sub(&inside[i], holder->waiter.is_exclusive ? EXCLUSIVE : 1);
	range_lock_release(&holder->waiter);
	thread->n_busy--;
	if (thread->n_rounds++ < ROUNDS)
		begin(holder);
	else if (!thread->n_busy)
		loop_stop(&thread->loop);
}

static void on_granted(struct range_waiter *waiter)
{
	enter(container_of(waiter, struct holder, waiter));
}

/* One cell exclusively, or a range shared: sometimes all of it. It begins in the middle of its
 * first cell, and a longer one ends in the middle of its last. */
static void begin(struct holder *holder)
{
	struct thread *thread = holder->thread;
	unsigned dice = (unsigned)rand_r(&thread->seed) % 100;
	bool is_exclusive = dice < 30;
	uint64_t offset, length;

	holder->first = (unsigned)rand_r(&thread->seed) % 6;
	holder->n = is_exclusive ? 1 : dice < 95 ? 1 + dice % 3 : CELLS - holder->first;
	holder->waiter.on_granted = on_granted;
	holder->waiter.loop = &thread->loop;
	thread->n_busy++;
	offset = ((uint64_t)holder->first << RANGE_STRIPE_SHIFT) + HALF;
	length = holder->n == 1 ? HALF : (uint64_t)(holder->n - 1) << RANGE_STRIPE_SHIFT;
	if (!range_lock_acquire(&the_lock, &holder->waiter, offset, length, is_exclusive))
		return;
	thread->n_at_once++;
	enter(holder);
}

static void *run(void *arg)
{
	struct thread *thread = arg;

	for (unsigned i = 0; i < HOLDERS; i++) {
		thread->holders[i].thread = thread;
		thread->holders[i].timer.on_expiry = on_expiry;
		begin(&thread->holders[i]);
	}
	loop_run(&thread->loop);
	return NULL;
}

int main(void)
{
	static struct thread threads[THREADS];
	unsigned n_at_once = 0;

	puts("1..3");
	range_lock_init(&the_lock);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i].seed = i;
		check(loop_init(&threads[i].loop, 0, NULL) == 0);
		check(pthread_create(&threads[i].id, NULL, run, &threads[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i].id, NULL);
		loop_deinit(&threads[i].loop);
		n_at_once += threads[i].n_at_once;
	}
	puts("ok 1 - every request is granted in the end");
	printf("%sok 2 - holders exclude each other: %u violations\n", n_violations ? "not " : "",
	       n_violations);
	range_lock_deinit(&the_lock); /* checks that no range is held */
	printf("ok 3 - everything is released; %u of %u granted at once\n", n_at_once,
	       THREADS * (ROUNDS + HOLDERS));
	return n_violations != 0;
}
