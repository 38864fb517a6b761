/* SPDX-License-Identifier: BSD-3-Clause */
/* What nbd_socket.c asks of a connection with TLS. Thread: the worker's. */
#pragma once

#include <sys/uio.h>

#include "nbd_bridge/io/nbd_conn.h"

/* As readv(2) on a socket that does not block. -1 with EPROTO: conn->why says why. */
ssize_t nbd_records_receive(struct nbd_conn *conn, const struct iovec *iov, unsigned n_iov);
/* As writev(2); fewer bytes than there are: the socket is full. */
ssize_t nbd_records_send(struct nbd_conn *conn, const struct iovec *iov, unsigned n_iov);
