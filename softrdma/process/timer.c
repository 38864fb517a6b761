/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers of the helper thread: one timerfd, armed for the earliest, idle when the
 * list is empty (so an idle process is never woken).
 *
 * Any thread starts and stops timers; the helper runs the callbacks without the
 * lock. Few are ever pending (sends that wait, connections that close), so a plain
 * list is enough.
 */
#include "softrdma/process/timer.h"

#include <errno.h>
#include <pthread.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "softrdma/process/part.h"

/* Guards the list and the timerfd's setting. Leaf. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_timer *timers;
static int fd = -1;

uint64_t sr_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void arm(void)
{
	struct itimerspec when = {0};
	uint64_t first = UINT64_MAX;

	for (struct sr_timer *t = timers; t; t = t->next)
		if (t->due_ns < first)
			first = t->due_ns;
	if (first != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(first / 1000000000u);
		when.it_value.tv_nsec = (long)(first % 1000000000u);
	}
	timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void unlink_timer(struct sr_timer *t)
{
	if (!t->link)
		return;
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	t->link = NULL;
}

void sr_timer_start(struct sr_timer *t, uint64_t delay_ns, void (*fn)(uint64_t), uint64_t arg)
{
	pthread_mutex_lock(&lock);
	unlink_timer(t);
	t->due_ns = sr_now_ns() + delay_ns;
	t->fn = fn;
	t->arg = arg;
	t->next = timers;
	if (timers)
		timers->link = &t->next;
	t->link = &timers;
	timers = t;
	arm();
	pthread_mutex_unlock(&lock);
}

void sr_timer_stop(struct sr_timer *t)
{
	pthread_mutex_lock(&lock);
	if (t->link) {
		unlink_timer(t);
		arm();
	}
	pthread_mutex_unlock(&lock);
}

int sr_timers_open(void)
{
	fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return fd < 0 ? -errno : sr_helper_watch(fd, SR_WATCH_TIMER, 0);
}

static struct sr_timer *due(void)
{
	uint64_t now = sr_now_ns();

	for (struct sr_timer *t = timers; t; t = t->next)
		if (t->due_ns <= now)
			return t;
	return NULL;
}

static void run(uint64_t id)
{
	uint64_t ticks;
	struct sr_timer *t;

	(void)!read(fd, &ticks, sizeof(ticks));
	pthread_mutex_lock(&lock);
	while ((t = due())) {
		void (*fn)(uint64_t) = t->fn;
		uint64_t arg = t->arg;

		unlink_timer(t);
		pthread_mutex_unlock(&lock);
		fn(arg);
		pthread_mutex_lock(&lock);
	}
	arm();
	pthread_mutex_unlock(&lock);
}

static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
	timers = NULL;
	if (fd >= 0)
		close(fd);
	fd = -1;
}

static const struct sr_part part = {.forget = forget, .on_watch[SR_WATCH_TIMER] = run};
SR_PART(part);
