/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures a wake-up: the caller rings an eventfd, and a second thread that sleeps in epoll answers
 * with the time at which it runs. The caller polls between two rings for as long as a CPU needs to
 * become idle, because waking an idle CPU is the larger part of the cost. The lower quartile
 * counts: on a busy machine the others contain the wait for a CPU, which sleeping does not cause.
 *
 * Two of them count. A wake-up lies between 10 and 50 us, which is what machines were found to
 * need. Rings that follow each other closely can be answered sooner than a loop is woken, and a
 * busy machine answers late.
 */
#include "base/wake_up.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/wake_up_kept.h"

enum {
	RINGS = 24,
	IDLE_NS = 50 * 1000,  /* from one ring to the next */
	BOTH = 2,	      /* the peer of a loop that sleeps waits longer, and so sleeps, too */
	LEAST_NS = 10 * 1000, /* with arming, and caches that have gone cold */
	MOST_NS = 50 * 1000,  /* more is a wait for a CPU */
	DEADLINE_NS = 20 * 1000 * 1000, /* of the whole; what has been measured by then counts */
};

struct bell {
	int bell_fd, epoll_fd;
	_Atomic uint64_t answered_ns; /* 0: not yet */
	_Atomic bool must_end;
};

static void *answer(void *arg)
{
	struct bell *bell = arg;
	struct epoll_event event;
	uint64_t count, now_ns;

	while (!atomic_load(&bell->must_end)) {
		if (epoll_wait(bell->epoll_fd, &event, 1, -1) != 1)
			continue;
		now_ns = clock_ns();
		if (read(bell->bell_fd, &count, sizeof(count)) == sizeof(count))
			atomic_store(&bell->answered_ns, now_ns);
	}
	return NULL;
}

static void poll_until(uint64_t until_ns)
{
	while (clock_ns() < until_ns)
		__builtin_ia32_pause();
}

static void ring(struct bell *bell)
{
	const uint64_t one = 1;

	atomic_store(&bell->answered_ns, 0);
	while (write(bell->bell_fd, &one, sizeof(one)) < 0)
		;
}

/* Nanoseconds from the ring to the answer; MOST_NS: it did not come in time. */
static uint64_t measure_one(struct bell *bell, uint64_t deadline_ns)
{
	uint64_t start_ns, answered_ns = 0;

	poll_until(clock_ns() + IDLE_NS);
	start_ns = clock_ns();
	ring(bell);
	while (!(answered_ns = atomic_load(&bell->answered_ns)) && clock_ns() < deadline_ns)
		__builtin_ia32_pause();
	return answered_ns ? MIN(answered_ns - start_ns, (uint64_t)MOST_NS) : MOST_NS;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t measure_with(struct bell *bell)
{
	uint64_t deadline_ns = clock_ns() + DEADLINE_NS, ns[RINGS];
	pthread_t thread;
	unsigned n = 0;

	if (pthread_create(&thread, NULL, answer, bell) != 0)
		return WAKE_UP_NS;
	while (n < RINGS && clock_ns() < deadline_ns)
		ns[n++] = measure_one(bell, deadline_ns);
	atomic_store(&bell->must_end, true);
	ring(bell);
	pthread_join(thread, NULL);
	qsort(ns, n, sizeof(*ns), by_size);
	/* One that a busy machine disturbed holds for this process only. */
	if (n == RINGS && ns[n / 2] < MOST_NS)
		wake_up_keep(BOTH * MAX(ns[n / 4], (uint64_t)LEAST_NS));
	return n ? BOTH * MAX(ns[n / 4], (uint64_t)LEAST_NS) : WAKE_UP_NS;
}

static uint64_t measure(void)
{
	struct bell bell = {.bell_fd = eventfd(0, EFD_CLOEXEC),
			    .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t ns = WAKE_UP_NS;

	if (bell.bell_fd >= 0 && bell.epoll_fd >= 0 &&
	    epoll_ctl(bell.epoll_fd, EPOLL_CTL_ADD, bell.bell_fd, &event) == 0)
		ns = measure_with(&bell);
	if (bell.bell_fd >= 0)
		close(bell.bell_fd);
	if (bell.epoll_fd >= 0)
		close(bell.epoll_fd);
	return ns;
}

static uint64_t measured_ns;

static void measure_once(void)
{
	measured_ns = wake_up_kept(BOTH * LEAST_NS, BOTH * MOST_NS) ?: measure();
}

uint64_t wake_up_ns(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (clock_source) /* a simulation: threads of its own would disturb it */
		return WAKE_UP_NS;
	pthread_once(&once, measure_once);
	return measured_ns;
}
