/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that makes kernel calls for frontend_kernel.c. Such a call may wait for I/O on the
 * device: a write to its queue's settings waits for udev's first reads, and those may need the
 * control thread to connect a queue. So the control thread hands over one job at a time, and
 * receives a message when it is done.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "nbd_bridge/control/kernel_nbd.h"

enum kernel_job {
	KERNEL_DETACH,	  /* for good: the kernel drops what it has not written */
	KERNEL_LEAVE,	  /* prepares a device in use for a successor; -EBUSY: it is in use */
	KERNEL_RECONNECT, /* gives the device sockets; -ENOENT: it is not ours any more */
	KERNEL_RESIZE,
	KERNEL_ATTACH, /* a predecessor's device, or a fresh one */
	KERNEL_JOBS,
};

struct kernel_helper {
	/* Thread: control */
	struct loop *control; /* borrowed */
	void (*on_done)(struct kernel_helper *helper, enum kernel_job job, int result);
	bool is_running, is_busy;
	pthread_t thread;
	struct loop_msg request, answer;

	/* Thread: its own while it is busy, control otherwise */
	enum kernel_job job;
	int result;
	struct kernel_nbd nbd;
	struct kernel_nbd_params params; /* of ATTACH, RECONNECT, RESIZE */
	uint32_t max_io_kib;		 /* of ATTACH */
	bool is_found;			 /* before ATTACH: index is a predecessor's device */
	bool is_attached;
	uint32_t index;

	/* Thread: its own */
	struct loop loop;
};

/* Control thread, all of them. 0 or -errno. */
int kernel_helper_start(struct kernel_helper *helper, struct loop *control);
/* Waits for the job under way. Accepts one that was not started. */
void kernel_helper_end(struct kernel_helper *helper);
/* Not while it is busy. Closes params.sockets. */
void kernel_helper_give(struct kernel_helper *helper, enum kernel_job job);
