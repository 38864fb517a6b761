/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes in and out of a connection's socket, which never blocks. Thread: the worker's. */
#pragma once

#include <sys/types.h>

#include "nbd_bridge/io/nbd_conn.h"

/* Receives the rest of input.filling in its place, what follows it into input.bytes. Returns as
 * read(2) does; *ret_is_short: the socket has no more for now. */
ssize_t nbd_socket_receive(struct nbd_conn *conn, bool *ret_is_short);
/* Sends the first of output.outs, as far as the socket takes them; calls sent of those that have
 * left. 0, with output.is_blocked if the socket is full, or -errno. */
int nbd_socket_send(struct nbd_conn *conn);
/* Calls sent of all that is queued, unsent. */
void nbd_socket_discard(struct nbd_conn *conn);
