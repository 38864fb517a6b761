/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group: the processes of one user that use the same address. They share a fixed set of sockets
 * bound to its UDP port 4791, among which the kernel distributes packets (steer.h), and a
 * directory.
 *
 * The kernel counts the sockets of a port from 0, and when one closes the last one takes its index.
 * So every process holds all of them, and none closes while one process lives. The first process
 * makes the set and listens on an abstract socket with the address as its name. Each later one
 * connects to it and gets the descriptors, that of the listening socket included: any process may
 * admit the next one, and none is needed.
 *
 * Functions return 0 or -errno.
 */
#pragma once

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrdma/fabric/roce/steer.h"

enum roce_space { /* of ports: RDMA_PS_TCP and RDMA_PS_UDP */
	ROCE_SPACE_TCP,
	ROCE_SPACE_UDP,
	ROCE_N_SPACES
};

/* In shared memory. An inbox is member.h's; 0: none. */
struct roce_directory {
	uint64_t magic;
	uint8_t random[8];			/* for the GUID of an address without a MAC */
	_Atomic uint16_t members[ROCE_MEMBERS]; /* the inbox of the last process with this number */
	_Atomic uint32_t listeners[ROCE_N_SPACES][65536]; /* inbox; ROCE_LISTENS */
};

/* All zero: not open. */
struct roce_group {
	union ibv_gid gid;
	int socks[ROCE_SOCKETS]; /* owned */
	int listener, memory;	 /* owned */
	struct roce_directory *directory;
};

/* Joins the group of an address of this host, or makes it. Says on standard error, once, why it
 * cannot. Not from the helper: waits for another process, at most for a second. */
int roce_group_open(const union ibv_gid *gid, uint32_t scope, struct roce_group *ret);
/* Accepts one that is half open. */
void roce_group_close(struct roce_group *g);
/* The listener is readable: gives a process what it joins with. */
void roce_group_admit(const struct roce_group *g);

/* This process listens on that port from now on, or no longer. -EADDRINUSE: another one does. */
int roce_group_listen(struct roce_group *g, enum roce_space space, uint16_t port);
void roce_group_unlisten(struct roce_group *g, enum roce_space space, uint16_t port);
/* The inbox of the process that listens there, or was the last to do so: what a peer repeats is
 * still for that one. ret_listens: it still does. 0: none. */
uint16_t roce_group_listener(const struct roce_group *g, enum roce_space space, uint16_t port,
			     bool *ret_listens);
/* That process has ended. */
void roce_group_clear(struct roce_group *g, enum roce_space space, uint16_t port, uint16_t inbox);
