/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixed newstyle handshake, as steps of the connection's input machine:
 *
 *   server: greeting             client: its flags             (CLIENT_FLAGS)
 *   client: option, data    ->   server: one or more replies   (OPTION, OPTION_DATA)
 *   ... until GO or EXPORT_NAME begins the transmission, or ABORT, or ten seconds are
 * over.
 *
 * Replies to one option are collected in hello_bytes and sent before the next option is
 * looked at, so a client that sends options and reads nothing makes us hold 4 KiB, no
 * more. An option longer than we care to look at is refused, its data swallowed, and the
 * handshake goes on.
 *
 * A wrong magic or an unknown client flag means that we do not speak the same protocol:
 * hang up.
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/log.h"
#include "nbd_bridge/io/nbd_handshake.h"

enum {
	OPTION_SKIP_MAX = 64 << 20, /* what we are ready to swallow of a refused option */
};

static void on_hello_sent(struct nbd_out *out)
{
	struct nbd_conn *conn = container_of(out, struct nbd_conn, hello);

	conn->n_hello_bytes = 0;
	out->payload_length = 0;
	nbd_conn_resume_soon(conn);
}

/* Sends what the current step appended. */
static void send_hello(struct nbd_conn *conn)
{
	if (!conn->n_hello_bytes)
		return;
	conn->hello.sent = on_hello_sent;
	conn->hello.payload = conn->hello_bytes;
	conn->hello.payload_length = (uint32_t)conn->n_hello_bytes;
	nbd_conn_send(conn, &conn->hello);
}

void nbd_hello_put(struct nbd_conn *conn, const void *bytes, size_t n)
{
	check(n <= CONN_REPLY_MAX - conn->n_hello_bytes);
	if (n)
		memcpy(conn->hello_bytes + conn->n_hello_bytes, bytes, n);
	conn->n_hello_bytes += n;
}

void nbd_option_reply2(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data1,
		       size_t n1, const void *data2, size_t n2)
{
	struct nbd_option_reply reply = {
		.magic = put_be64(NBD_OPTION_REPLY_MAGIC),
		.option = put_be32(conn->option),
		.type = put_be32(type),
		.length = put_be32((uint32_t)(n1 + n2)),
	};

	nbd_hello_put(conn, &reply, sizeof(reply));
	nbd_hello_put(conn, data1, n1);
	nbd_hello_put(conn, data2, n2);
}

void nbd_option_reply(struct nbd_conn *conn, enum nbd_option_reply_type type, const void *data,
		      size_t n)
{
	nbd_option_reply2(conn, type, data, n, NULL, 0);
}

void nbd_option_error(struct nbd_conn *conn, enum nbd_option_reply_type type, const char *text)
{
	nbd_option_reply(conn, type, text, strlen(text));
}

void nbd_handshake_start(struct nbd_conn *conn)
{
	struct nbd_greeting greeting = {
		.magic = put_be64(NBD_GREETING_MAGIC),
		.option_magic = put_be64(NBD_OPTION_MAGIC),
		.flags = put_be16(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES),
	};

	nbd_conn_move(conn, CONN_CLIENT_FLAGS);
	nbd_hello_put(conn, &greeting, sizeof(greeting));
	send_hello(conn);
}

enum conn_step nbd_handshake_client_flags(struct nbd_conn *conn)
{
	be32 wire;
	uint32_t flags;

	if (nbd_conn_n_input(conn) < sizeof(wire))
		return STEP_NEEDS_INPUT;
	memcpy(&wire, conn->in + conn->in_at, sizeof(wire));
	conn->in_at += sizeof(wire);
	flags = get_be32(wire);
	if (flags & ~(uint32_t)(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES)) {
		nbd_conn_abort(conn, "unknown client flags");
		return STEP_AGAIN;
	}
	conn->is_fixed_newstyle = flags & NBD_FIXED_NEWSTYLE;
	conn->is_no_zeroes = flags & NBD_NO_ZEROES;
	nbd_conn_move(conn, CONN_OPTION);
	return STEP_AGAIN;
}

/* Refuses an option that is too long to look at, without losing our place in the stream.
 */
static enum conn_step refuse_long_option(struct nbd_conn *conn)
{
	if (conn->option_length > OPTION_SKIP_MAX || conn->option == NBD_OPT_EXPORT_NAME) {
		nbd_conn_abort(conn, "an option of absurd length");
		return STEP_AGAIN;
	}
	nbd_conn_move(conn, CONN_OPTION_SKIP);
	return STEP_AGAIN;
}

enum conn_step nbd_handshake_option(struct nbd_conn *conn)
{
	struct nbd_option_header header;

	if (!list_is_empty(&conn->outs))
		return STEP_WAITS;
	if (nbd_conn_n_input(conn) < sizeof(header))
		return STEP_NEEDS_INPUT;
	memcpy(&header, conn->in + conn->in_at, sizeof(header));
	conn->in_at += sizeof(header);
	conn->option = get_be32(header.option);
	conn->option_length = get_be32(header.length);
	if (get_be64(header.magic) != NBD_OPTION_MAGIC) {
		nbd_conn_abort(conn, "wrong magic of an option");
		return STEP_AGAIN;
	}
	if (!conn->is_fixed_newstyle && conn->option != NBD_OPT_EXPORT_NAME) {
		nbd_conn_abort(conn, "an option that needs the fixed newstyle handshake");
		return STEP_AGAIN;
	}
	if (conn->option_length > CONN_OPTION_MAX)
		return refuse_long_option(conn);
	nbd_conn_move(conn, CONN_OPTION_DATA);
	return STEP_AGAIN;
}

enum conn_step nbd_handshake_option_data(struct nbd_conn *conn)
{
	const uint8_t *data = conn->in + conn->in_at;

	if (nbd_conn_n_input(conn) < conn->option_length)
		return STEP_NEEDS_INPUT;
	conn->in_at += conn->option_length;
	nbd_option_run(conn, data, conn->option_length);
	if (conn->state == CONN_OPTION_DATA)
		nbd_conn_move(conn, CONN_OPTION);
	if (conn->state != CONN_CLOSED)
		send_hello(conn);
	return STEP_AGAIN;
}

enum conn_step nbd_handshake_option_skip(struct nbd_conn *conn)
{
	uint32_t n = (uint32_t)MIN(nbd_conn_n_input(conn), conn->option_length);

	conn->in_at += n;
	conn->option_length -= n;
	if (conn->option_length)
		return STEP_NEEDS_INPUT;
	nbd_option_error(conn, NBD_REP_ERR_TOO_BIG, "the option is too long");
	send_hello(conn);
	nbd_conn_move(conn, CONN_OPTION);
	return STEP_AGAIN;
}
