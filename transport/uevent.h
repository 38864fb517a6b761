/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's word that devices have gone (uevents, as udev hears them). Control thread. */
#pragma once

#include "base/loop.h"

struct uevents {
	struct loop_fd lfd;
	void (*on_removal)(void); /* some RDMA device went; not said which */
};

/* 0 or -errno. */
int uevents_open(struct uevents *uevents, struct loop *loop, void (*on_removal)(void));
void uevents_close(struct uevents *uevents); /* accepts a zeroed one */
