/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The jobs of the helper thread; see kernel_helper.h.
 *
 * The kernel's timer. When a connection dies, the kernel sends its requests again after the timer
 * has fired. With one connection and no timeout the timer only checks whether the connection was
 * replaced, so it may be short. With several connections, or a timeout, the kernel also takes a
 * connection with a late request for dead and sends the request again on another one, where it
 * could overtake its first copy: there the timer must be longer than any time we hold I/O
 * (params.io_timeout_s).
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "nbd_bridge/control/kernel_device.h"
#include "nbd_bridge/control/kernel_helper.h"

#define TIMER_MS      "10000"
#define TIMER_LEFT_MS "1000" /* for requests sent in the last moments of a process that leaves */

/* CONNECT and RECONFIGURE set it to 30 seconds. */
static void set_timer(const struct kernel_helper *helper, const char *ms)
{
	if (!helper->params.io_timeout_s)
		kernel_device_set(helper->index, "io_timeout", ms);
}

/* The kernel's defaults are for disks: a scheduler, and requests of at most 128 KiB. */
static void tune(const struct kernel_helper *helper)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", MIN(helper->max_io_kib, 1024u));
	set_timer(helper, TIMER_MS);
	kernel_device_set(helper->index, "scheduler", "none");
	kernel_device_set(helper->index, "max_sectors_kb", value);
	kernel_device_set(helper->index, "rotational", "0");
}

/* The kernel holds its own references by now; without it, ours close the connections. */
static void close_sockets(struct kernel_helper *helper)
{
	for (unsigned i = 0; i < helper->params.n_sockets; i++)
		close(helper->params.sockets[i]);
	helper->params.n_sockets = 0;
}

static int attach(struct kernel_helper *helper)
{
	struct kernel_nbd *nbd = &helper->nbd;
	int r = kernel_nbd_open(nbd);

	if (r == 0 && helper->is_found) {
		r = kernel_nbd_reconfigure(nbd, helper->index, &helper->params);
		helper->is_found = r == 0;
		if (r == -EINVAL) /* it ended meanwhile */
			r = kernel_nbd_connect(nbd, &helper->params, &helper->index);
	} else if (r == 0) {
		r = kernel_nbd_connect(nbd, &helper->params, &helper->index);
	}
	close_sockets(helper);
	helper->is_attached = r == 0;
	if (r == 0)
		tune(helper);
	return r;
}

static bool is_still_ours(const struct kernel_helper *helper)
{
	uint32_t index;

	return kernel_device_find(KERNEL_SYS_BLOCK, helper->params.backend, &index) == 0 &&
	       index == helper->index;
}

static int reconnect(struct kernel_helper *helper)
{
	int r = kernel_nbd_reconfigure(&helper->nbd, helper->index, &helper->params);

	close_sockets(helper);
	if (r == 0) {
		set_timer(helper, TIMER_MS);
		return 0;
	}
	helper->is_attached = is_still_ours(helper);
	return helper->is_attached ? r : -ENOENT;
}

static int resize(struct kernel_helper *helper)
{
	int r = kernel_nbd_resize(&helper->nbd, helper->index, &helper->params);

	if (r < 0)
		log_errno(r, "/dev/nbd%u: cannot set the new size", helper->index);
	return r;
}

/* Is the device open elsewhere? The kernel has no query for that. So it is asked to end the device
 * with its last close: if our own close ends it, there was no other user. */
static int leave(struct kernel_helper *helper)
{
	int fd, r;

	if (!helper->is_attached)
		return 0;
	r = kernel_nbd_end_on_close(&helper->nbd, helper->index, &helper->params);
	if (r < 0)
		log_errno(r, "/dev/nbd%u: cannot find out whether it is used", helper->index);
	fd = kernel_device_quiet(helper->index);
	if (fd >= 0)
		close(fd);
	helper->is_attached = is_still_ours(helper);
	if (!helper->is_attached)
		return 0;
	set_timer(helper, TIMER_LEFT_MS);
	return -EBUSY;
}

/* udev is kept out: its reads of a vanishing device would fill the log with errors. */
static int detach(struct kernel_helper *helper)
{
	_autoclose_ int fd = -1;
	int r;

	if (!helper->is_attached)
		return 0;
	fd = kernel_device_quiet(helper->index);
	r = kernel_nbd_disconnect(&helper->nbd, helper->index);
	if (r < 0)
		log_errno(r, "/dev/nbd%u: cannot detach", helper->index);
	helper->is_attached = false;
	return r;
}

static int (*const jobs[KERNEL_JOBS])(struct kernel_helper *helper) = {
	[KERNEL_DETACH] = detach, [KERNEL_LEAVE] = leave,   [KERNEL_RECONNECT] = reconnect,
	[KERNEL_RESIZE] = resize, [KERNEL_ATTACH] = attach,
};

static void on_request(struct loop_msg *msg)
{
	struct kernel_helper *helper = container_of(msg, struct kernel_helper, request);

	helper->result = jobs[helper->job](helper);
	loop_send(helper->control, &helper->answer);
}

static void on_answer(struct loop_msg *msg)
{
	struct kernel_helper *helper = container_of(msg, struct kernel_helper, answer);

	helper->is_busy = false;
	helper->on_done(helper, helper->job, helper->result);
}

void kernel_helper_give(struct kernel_helper *helper, enum kernel_job job)
{
	check(helper->is_running && !helper->is_busy);
	helper->is_busy = true;
	helper->job = job;
	helper->request.run = on_request;
	helper->answer.run = on_answer;
	loop_send(&helper->loop, &helper->request);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void *run(void *arg)
{
	struct kernel_helper *helper = arg;

	pthread_setname_np(pthread_self(), "nbd-helper");
	loop_run(&helper->loop);
	return NULL;
}

int kernel_helper_start(struct kernel_helper *helper, struct loop *control)
{
	int r = loop_init(&helper->loop, 0, NULL);

	if (r < 0)
		return r;
	helper->control = control;
	r = -pthread_create(&helper->thread, NULL, run, helper);
	if (r < 0)
		loop_deinit(&helper->loop);
	helper->is_running = r == 0;
	return r;
}

void kernel_helper_end(struct kernel_helper *helper)
{
	if (!helper->is_running)
		return;
	loop_stop(&helper->loop);
	pthread_join(helper->thread, NULL);
	loop_deinit(&helper->loop);
	helper->is_running = false;
	kernel_nbd_close(&helper->nbd);
}
