/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration of a volume process, and its options in the form of the command line: names and
 * texts. The process reports them in its status; `rblk attach` makes the same object from its own
 * command line and compares the two. Those of the volume itself are in the table of
 * volume_config.c, and the others have a line here.
 */
#pragma once

#include "initiator/control/volume.h"
#include "nbd_bridge/control/frontend.h"

struct json_object;

enum {
	BRIDGE_METRICS_PORT = 9808, /* if the address has none */
};

enum bridge_frontend {
	BRIDGE_FRONTEND_AUTO,	/* the kernel's device where available, and the sockets */
	BRIDGE_FRONTEND_NBD,	/* the same, but without the device it is an error */
	BRIDGE_FRONTEND_SOCKET, /* the sockets only */
};

/* How a volume that is ready can be used; all borrowed, for the time of the call. */
struct bridge_ready {
	const char *device; /* "/dev/nbd0", or "" */
	const char *uri;    /* "nbd+unix:///NAME?socket=PATH", or "" */
	const char *note;   /* a note for the user, or "" */
	const struct volume_info *info;
};

struct bridge_config {
	struct volume_config volume;
	const char *name;	  /* of the volume on this machine, and of the NBD export */
	const char *control_path; /* unix socket for rblk list, status, detach; NULL: none */
	const char *lock_path;	  /* file that is locked while it is created; NULL: none */
	struct frontend_socket_config sockets;
	const char *metrics; /* where Prometheus reads them, as given; NULL: nowhere */
	union addr metrics_address;
	struct frontend_kernel_config kernel;
	enum bridge_frontend frontend;
	unsigned max_connections;
	bool has_fixed_queues; /* a queue and a thread for each connection, up to volume.n_queues */
	bool is_read_only;
	void (*on_ready)(void *context, const struct bridge_ready *ready);
	void *context;
};

/* {option: text}; the caller owns it. Control thread. */
struct json_object *bridge_options(const struct bridge_config *config);
