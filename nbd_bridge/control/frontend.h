/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Front ends: the ways in which programs of this machine reach the volume. NBD sockets are one
 * (frontend_socket.c), the kernel's /dev/nbdN another (frontend_kernel.c); ublk could be a third.
 * A front end lives on the control thread, calls nothing of the volume process and brings it
 * connections through struct frontend_host; the volume process places them on workers.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/addr.h"
#include "base/list.h"
#include "base/loop.h"
#include "initiator/control/volume.h"
#include "nbd_bridge/io/nbd_export.h"

/* The volume process, as a front end sees it. */
struct frontend_host {
	struct loop *loop; /* control */
	const struct nbd_export *export;
	const struct volume_info *info;
	/* May another client come now? When not, ops->has_room follows later. */
	bool (*has_room)(struct frontend_host *host);
	/* Takes fd, a connected stream socket, in any case; is_kernel: no handshake. It lives until
	 * its peer ends it. must_exit: the process ends with it. 0 or -errno. */
	int (*add_conn)(struct frontend_host *host, int fd, bool is_kernel, bool must_exit);
	/* A front end that was starting has started, or failed. */
	void (*on_started)(struct frontend_host *host, const struct error *error);
	/* While stopping: the device stays, its connections answer what is in flight and close. The
	 * process exits with why. */
	void (*on_left)(struct frontend_host *host, const struct error *why);
	/* Another program detached the device. */
	void (*on_lost)(struct frontend_host *host);
};

struct frontend;
struct frontend_ops {
	const char *name;
	/* The volume is live: users may come. 0 or an exit code, with *error filled. When it leaves
	 * is_starting set, host.on_started follows. */
	int (*start)(struct frontend *frontend, struct error *error);
	/* The volume's size changed; NULL: nothing to do. */
	void (*resize)(struct frontend *frontend);
	/* One of the kernel's connections is gone, its I/O too; was_used: it carried requests. */
	void (*conn_gone)(struct frontend *frontend, bool was_used, unsigned n_left);
	/* There is room for clients again; NULL: it never calls host.has_room. */
	void (*has_room)(struct frontend *frontend);
	/* No new users from now on; its connections end by themselves. may_leave: a device in use
	 * may stay, for a successor. */
	void (*stop)(struct frontend *frontend, bool may_leave);
	void (*free)(struct frontend *frontend);
};

struct frontend {
	const struct frontend_ops *ops;
	struct frontend_host *host; /* borrowed */
	bool is_starting;
};

enum {
	FRONTEND_INHERITED_MAX = 8,
};

struct frontend_socket_config {
	const char *path; /* unix socket, or NULL */
	mode_t mode;
	uid_t owner; /* of path; -1: not changed */
	gid_t group;
	bool is_stdio;	      /* one connection: standard input and output */
	unsigned n_inherited; /* listening sockets 3, 4, ... (LISTEN_FDS) */
};

struct frontend_kernel_config {
	unsigned n_connections;	     /* sockets, and so queues of the block device */
	uint64_t io_timeout_s;	     /* after which the kernel gives up a request */
	const char *names_directory; /* for udev: files by UUID that hold volumes' names; or NULL */
};
