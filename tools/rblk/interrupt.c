/* SPDX-License-Identifier: BSD-3-Clause */
/* See interrupt.h. */
#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/list.h"
#include "tools/rblk/interrupt.h"

static void on_signal(struct loop_fd *lfd, uint32_t events)
{
	struct interrupt *interrupt = container_of(lfd, struct interrupt, signals);
	struct signalfd_siginfo info;

	if (read(lfd->fd, &info, sizeof(info)) != sizeof(info))
		return;
	pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
	interrupt->on_interrupt(interrupt);
}

int interrupt_watch(struct interrupt *interrupt, struct loop *loop)
{
	sigset_t set;
	int fd, r;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	interrupt->signals = (struct loop_fd){.fd = fd, .events = EPOLLIN, .on_event = on_signal};
	r = loop_fd_add(loop, &interrupt->signals);
	if (r < 0) {
		close(fd);
		return r;
	}
	pthread_sigmask(SIG_BLOCK, &set, &interrupt->before);
	return 0;
}

void interrupt_leave(struct interrupt *interrupt)
{
	loop_fd_remove(&interrupt->signals);
	close(interrupt->signals.fd);
	pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
}
