/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications of the kernel that devices were removed (uevents, as udev gets them). Control
 * thread. */
#pragma once

#include "base/loop.h"

struct uevents {
	struct loop_fd lfd;
	void (*on_removal)(void); /* some RDMA device was removed; the event does not name it */
};

/* 0 or -errno. */
int uevents_open(struct uevents *uevents, struct loop *loop, void (*on_removal)(void));
void uevents_close(struct uevents *uevents); /* accepts a zeroed one */
