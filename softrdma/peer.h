/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <sys/un.h>

#include "node.h"

/* Between node.c and peer.c only. */
extern struct peer *peer_self;

int node_name(uint16_t base, struct sockaddr_un *ret);
int peer_init(int wake_fd);
void peer_forget(void);
/* Helper: a stranger introduced himself on this socket; a peer has gone. */
void peer_on_hello(int sock);
void peer_on_gone(uint64_t serial);
