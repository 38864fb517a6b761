/* SPDX-License-Identifier: BSD-3-Clause */
/* Between nbd_handshake.c, which moves bytes, and nbd_options.c, which knows the options.
 */
#pragma once

#include "nbd_bridge/io/nbd_conn.h"

/* Sends the greeting. */
void nbd_handshake_start(struct nbd_conn *conn);

/* Steps of the connection's input machine. */
enum conn_step nbd_handshake_client_flags(struct nbd_conn *conn);
enum conn_step nbd_handshake_option(struct nbd_conn *conn);
enum conn_step nbd_handshake_option_data(struct nbd_conn *conn);
enum conn_step nbd_handshake_option_skip(struct nbd_conn *conn);

/* Answers the option whose data are data[0..length): appends replies, and may move the
 * state. */
void nbd_option_run(struct nbd_conn *conn, const uint8_t *data, uint32_t length);

/* Appends raw bytes to what will be sent. */
void nbd_hello_put(struct nbd_conn *conn, const void *bytes, size_t n);
/* A reply to the current option, its data in one or two pieces. */
void nbd_option_reply(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data,
		      size_t n);
void nbd_option_reply2(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data1,
		       size_t n1, const void *data2, size_t n2);
/* An error reply with a text for people. */
void nbd_option_error(struct nbd_conn *conn, enum nbd_option_reply_type type, const char *text);
