/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's messages of the handshake. Replies to one option are collected in
 * conn.handshake.bytes and sent as one; the next option is read when they have left, so a client
 * that sends options and reads nothing makes us hold CONN_REPLY_MAX bytes, no more.
 */
#include <string.h>

#include "base/check.h"
#include "nbd_bridge/io/nbd_hello.h"

static void on_hello_sent(struct nbd_out *out)
{
	struct nbd_conn *conn = container_of(out, struct nbd_conn, handshake.hello);

	conn->handshake.n_bytes = 0;
	out->payload_length = 0;
	nbd_conn_resume_soon(conn);
}

void nbd_hello_send(struct nbd_conn *conn)
{
	if (!conn->handshake.n_bytes)
		return;
	conn->handshake.hello.sent = on_hello_sent;
	conn->handshake.hello.payload = conn->handshake.bytes;
	conn->handshake.hello.payload_length = (uint32_t)conn->handshake.n_bytes;
	nbd_conn_send(conn, &conn->handshake.hello);
}

void nbd_hello_put(struct nbd_conn *conn, const void *bytes, size_t n)
{
	check(n <= CONN_REPLY_MAX - conn->handshake.n_bytes);
	if (n)
		memcpy(conn->handshake.bytes + conn->handshake.n_bytes, bytes, n);
	conn->handshake.n_bytes += n;
}

void nbd_hello_reply2(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data1,
		      size_t n1, const void *data2, size_t n2)
{
	struct nbd_option_reply reply = {
		.magic = put_be64(NBD_OPTION_REPLY_MAGIC),
		.option = put_be32(conn->handshake.option),
		.type = put_be32(type),
		.length = put_be32((uint32_t)(n1 + n2)),
	};

	nbd_hello_put(conn, &reply, sizeof(reply));
	nbd_hello_put(conn, data1, n1);
	nbd_hello_put(conn, data2, n2);
}

void nbd_hello_reply(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data,
		     size_t n)
{
	nbd_hello_reply2(conn, type, data, n, NULL, 0);
}

void nbd_hello_error(struct nbd_conn *conn, enum nbd_option_reply_type type, const char *text)
{
	nbd_hello_reply(conn, type, text, strlen(text));
}
