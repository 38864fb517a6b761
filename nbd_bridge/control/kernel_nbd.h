/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's nbd driver, by generic netlink. All calls block. Thread: the helper's. */
#pragma once

#include <stdint.h>
#include <uuid/uuid.h>

enum {
	KERNEL_NBD_SOCKETS_MAX = 16,
};

struct nl_sock;

struct kernel_nbd {
	struct nl_sock *sock; /* owned, NULL when closed */
	int family;
	uint32_t index; /* in the answer to CONNECT */
};

struct kernel_nbd_params {
	uint64_t size_bytes;
	uint32_t block_size;
	uint64_t io_timeout_s;
	uint64_t dead_conn_timeout_s;
	uint16_t flags; /* enum nbd_transmission_flag */
	char backend[UUID_STR_LEN];
	int sockets[KERNEL_NBD_SOCKETS_MAX]; /* borrowed */
	unsigned n_sockets;
};

/* Is the driver there? Tries to load it. 0 or -ENOENT. Any thread. */
int kernel_nbd_probe(void);
int kernel_nbd_open(struct kernel_nbd *nbd);
void kernel_nbd_close(struct kernel_nbd *nbd); /* accepts a zeroed one */
/* A fresh device with these sockets. */
int kernel_nbd_connect(struct kernel_nbd *nbd, const struct kernel_nbd_params *params,
		       uint32_t *ret_index);
/* The sockets take the places of dead ones; the kernel closes those without a place. Size and
 * timeouts are set again. -EINVAL: no such device, or of another backend. */
int kernel_nbd_reconfigure(struct kernel_nbd *nbd, uint32_t index,
			   const struct kernel_nbd_params *params);
/* Uses size and backend of params. */
int kernel_nbd_resize(struct kernel_nbd *nbd, uint32_t index,
		      const struct kernel_nbd_params *params);
/* The device ends with its last close, unless it is reconfigured before. */
int kernel_nbd_end_on_close(struct kernel_nbd *nbd, uint32_t index,
			    const struct kernel_nbd_params *params);
int kernel_nbd_disconnect(struct kernel_nbd *nbd, uint32_t index);
