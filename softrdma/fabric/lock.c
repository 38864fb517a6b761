/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks in shared memory that survive the death of their holder.
 *
 * Any application thread and the helper take them, for a few hundred nanoseconds (a QP's lock: for
 * the length of one copy). A waiter spins, then yields. After a while it checks whether the
 * holder's process still exists and, if not, takes the lock over. In every structure guarded by
 * such a lock the last store publishes the change: a holder that dies in the middle leaves either
 * the old or the new state. In three places that is not enough (a claimed receive, see rq.c): there
 * the thread that inherits the lock repairs the state.
 *
 * The word names the process, not the thread: threads of one process die together. Two threads of
 * one process use the same identity, which is safe because only 0 -> identity transitions take the
 * lock.
 */
#include "softrdma/fabric/lock.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t sr_lock_self;

/* Start time (clock ticks since boot) of a process; 0 when gone or a zombie. */
static uint64_t start_time(int32_t pid)
{
	char path[32], buf[512];
	char *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	p = strrchr(buf, ')'); /* the command name may contain any byte, also ')' */
	if (!p || !p[1] || p[2] == 'Z' || p[2] == 'X')
		return 0;
	p += 2;
	for (int field = 3; field < 22 && p; field++) /* proc(5): starttime is 22nd */
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

void sr_lock_init(void)
{
	int32_t pid = getpid();

	sr_lock_self = (uint64_t)(uint32_t)pid << 32 | (uint32_t)start_time(pid);
}

bool sr_lock_owner_alive(uint64_t owner)
{
	uint64_t start = start_time((int32_t)(owner >> 32));

	return start && (uint32_t)start == (uint32_t)owner;
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static void pause_for(unsigned round)
{
	struct timespec ms = {.tv_nsec = 1000000};

	if (round < 100)
		relax();
	else if (round < 2000)
		sched_yield();
	else
		nanosleep(&ms, NULL);
}

static bool worth_checking(unsigned round)
{
	return round >= 2000 && round % 16 == 0;
}

bool sr_lock_slow(struct seg_lock *l)
{
	for (unsigned round = 0;; round++) {
		uint64_t seen = atomic_load_explicit(&l->owner, memory_order_relaxed);
		bool dead = seen && seen != sr_lock_self && worth_checking(round) &&
			    !sr_lock_owner_alive(seen);

		if ((!seen || dead) &&
		    atomic_compare_exchange_strong(&l->owner, &seen, sr_lock_self))
			return dead;
		pause_for(round);
	}
}

void sr_lock_quiesce(struct seg_lock *l)
{
	/* seq_cst: pairs with sr_lock_take; the caller has just invalidated something */
	uint64_t seen = atomic_load(&l->owner);
	uint64_t now = seen;

	for (unsigned round = 0; seen && now == seen; round++) {
		if (seen != sr_lock_self && worth_checking(round) && !sr_lock_owner_alive(seen))
			return;
		pause_for(round);
		now = atomic_load(&l->owner);
	}
}
