/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects and sends the server's side of the handshake. Thread: the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_conn.h"

/* Appends raw bytes to what will be sent. */
void nbd_hello_put(struct nbd_conn *conn, const void *bytes, size_t n);
/* A reply to the current option, its data in one or two pieces. */
void nbd_hello_reply(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data,
		     size_t n);
void nbd_hello_reply2(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data1,
		      size_t n1, const void *data2, size_t n2);
/* An error reply with a text for people. */
void nbd_hello_error(struct nbd_conn *conn, enum nbd_option_reply_type type, const char *text);
/* Sends what was appended, if anything; the connection resumes when it has left. */
void nbd_hello_send(struct nbd_conn *conn);
