/* SPDX-License-Identifier: BSD-3-Clause */
/* The helper thread; see helper.h. Nothing of the normal data path runs here. */
#include "softrdma/process/helper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "softrdma/process/part.h"

static int epoll_fd = -1;
static void (*on_watch[SR_N_WATCH])(uint64_t id); /* filled before the thread starts */
static _Thread_local bool is_helper;

static int watch(int fd, enum sr_watch kind, uint64_t id, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u64 = (uint64_t)kind << 56 | id};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int sr_helper_watch(int fd, enum sr_watch kind, uint64_t id)
{
	return watch(fd, kind, id, EPOLLIN | EPOLLRDHUP);
}

int sr_helper_watch_errors(int fd, enum sr_watch kind, uint64_t id)
{
	return watch(fd, kind, id, 0); /* EPOLLERR is always reported */
}

void sr_helper_unwatch(int fd)
{
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

bool sr_helper_is_self(void)
{
	return is_helper;
}

static void dispatch(uint64_t data)
{
	uint64_t kind = data >> 56;

	if (kind < SR_N_WATCH && on_watch[kind])
		on_watch[kind](data & ((1ULL << 56) - 1));
}

/* The descriptor is an argument because a forked child may have reset epoll_fd. */
struct sr_helper_start {
	int epoll_fd;
	void (*on_start)(void);
};

static void *helper(void *arg)
{
	struct sr_helper_start start = *(struct sr_helper_start *)arg;
	struct epoll_event ev[32];

	is_helper = true;
	start.on_start();
	for (;;) {
		int n = epoll_wait(start.epoll_fd, ev, 32, -1);

		if (n < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < n; i++)
			dispatch(ev[i].data.u64);
	}
}

int sr_helper_run(void (*on_start)(void))
{
	static struct sr_helper_start start; /* outlives this call; one helper a process */
	sigset_t all, old;
	pthread_t thread;
	int r;

	SR_FOR_EACH_PART(part)
	for (unsigned i = 0; i < SR_N_WATCH; i++)
		if (part->on_watch[i])
			on_watch[i] = part->on_watch[i];
	start = (struct sr_helper_start){.epoll_fd = epoll_fd, .on_start = on_start};
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* inherited by the thread */
	r = pthread_create(&thread, NULL, helper, &start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return -r;
	pthread_setname_np(thread, "softrdma");
	pthread_detach(thread);
	return 0;
}

int sr_helper_open(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd < 0 ? -errno : 0;
}

void sr_helper_forget(void)
{
	if (epoll_fd >= 0)
		close(epoll_fd);
	epoll_fd = -1;
}
