/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "library/descriptor.h"
#include "library/handle.h"
#include "library/process.h"

/* For both descriptors: their only use is to make the loop's epoll_fd readable. */
static void clear(struct loop_fd *lfd, uint32_t events)
{
	uint64_t n;

	if (read(lfd->fd, &n, sizeof(n)) < 0)
		check(errno == EAGAIN);
}

static int add_fd(struct rblk_queue *queue, struct loop_fd *lfd, int fd)
{
	int r;

	if (fd < 0)
		return -errno;
	*lfd = (struct loop_fd){
		.fd = fd, .events = EPOLLIN, .is_doorbell = true, .on_event = clear};
	r = loop_fd_add(&queue->loop, lfd);
	if (r < 0)
		close(fd);
	return r;
}

static int make_fds(struct rblk_queue *queue)
{
	int r = add_fd(queue, &queue->ready, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

	if (r < 0)
		return r;
	r = add_fd(queue, &queue->alarm,
		   timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (r < 0) {
		loop_fd_remove(&queue->ready);
		close(queue->ready.fd);
		return r;
	}
	queue->has_fd = true;
	return 0;
}

int rblk_fd(struct rblk_queue *queue)
{
	int r = 0;

	if (process_is_child())
		return -ECHILD;
	queue_enter(queue);
	if (!queue->has_fd)
		r = make_fds(queue);
	queue_leave(queue);
	return r < 0 ? r : queue->loop.epoll_fd;
}

/* The loop's timers end a sleep that is not the loop's. */
static void set_alarm(struct rblk_queue *queue)
{
	uint64_t at = loop_deadline_ns(&queue->loop);
	struct itimerspec when = {0};

	if (at == queue->alarm_ns)
		return;
	queue->alarm_ns = at;
	if (at != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(at / NSEC_PER_SEC);
		when.it_value.tv_nsec = (long)(at % NSEC_PER_SEC);
	}
	timerfd_settime(queue->alarm.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

bool queue_arm(struct rblk_queue *queue)
{
	queue->is_armed = queue->has_fd && loop_arm(&queue->loop);
	if (queue->is_armed)
		set_alarm(queue);
	return queue->is_armed;
}

int rblk_arm(struct rblk_queue *queue)
{
	int r;

	if (process_is_child())
		return -ECHILD;
	queue_enter(queue);
	r = queue->reported || queue->ended || !queue_arm(queue);
	queue_leave(queue);
	return r;
}
