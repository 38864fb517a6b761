/* SPDX-License-Identifier: BSD-3-Clause */
/* Drives a connection from its first byte to its end. Thread: the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_conn.h"

/* The connection has arrived on conn.thread: sends the greeting, or begins the kernel's
 * transmission. It ends with conn.on_over, never from inside of these. */
void nbd_session_start(struct nbd_conn *conn);
/* The connection, which left another worker, has arrived on conn.thread. Goes on there. */
void nbd_session_arrive(struct nbd_conn *conn);
/* It leaves with conn.on_over, open, as soon as nothing of it is in flight. */
void nbd_session_leave(struct nbd_conn *conn);
/* The gate is open: a connection in CONN_WAITING begins its transmission. */
void nbd_session_admit(struct nbd_conn *conn);
/* Server shutdown: finishes what is in flight, refuses new requests, closes. */
void nbd_session_stop(struct nbd_conn *conn);
/* No more input is taken; closes when everything in flight has been answered. */
void nbd_session_drain(struct nbd_conn *conn);
/* Hard disconnect: nothing more is read or sent. why: for the log. */
void nbd_session_abort(struct nbd_conn *conn, const char *why);
/* End of a turn: sends what is queued, as far as the socket takes it. */
void nbd_session_flush(struct nbd_conn *conn);
