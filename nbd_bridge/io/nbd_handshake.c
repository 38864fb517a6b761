/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixed newstyle handshake, as steps of the connection's input machine:
 *
 *   server: greeting           client: its flags               CLIENT_FLAGS
 *   client: option, data  ->   server: one or more replies     OPTION, OPTION_DATA
 *   ... until GO or EXPORT_NAME begins the transmission, or ABORT, or ten seconds are over.
 *
 * Replies leave before the next option is read (nbd_hello.c). An option longer than CONN_OPTION_MAX
 * is refused, its data skipped, and the handshake goes on. A wrong magic or an unknown client flag
 * means that the client speaks another protocol: the connection is closed.
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "nbd_bridge/io/nbd_handshake.h"
#include "nbd_bridge/io/nbd_hello.h"
#include "nbd_bridge/io/nbd_options.h"

enum {
	OPTION_SKIP_MAX = 64 << 20, /* of a refused option: beyond it the connection is closed */
};

void nbd_handshake_start(struct nbd_conn *conn)
{
	struct nbd_greeting greeting = {
		.magic = put_be64(NBD_GREETING_MAGIC),
		.option_magic = put_be64(NBD_OPTION_MAGIC),
		.flags = put_be16(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES),
	};

	nbd_conn_move(conn, CONN_CLIENT_FLAGS);
	nbd_hello_put(conn, &greeting, sizeof(greeting));
	nbd_hello_send(conn);
}

enum conn_step nbd_handshake_client_flags(struct nbd_conn *conn)
{
	be32 wire;
	uint32_t flags;

	if (nbd_conn_n_input(conn) < sizeof(wire))
		return STEP_NEEDS_INPUT;
	memcpy(&wire, conn->input.bytes + conn->input.at, sizeof(wire));
	conn->input.at += sizeof(wire);
	flags = get_be32(wire);
	if (flags & ~(uint32_t)(NBD_FIXED_NEWSTYLE | NBD_NO_ZEROES))
		return nbd_conn_refuse(conn, "unknown client flags");
	conn->handshake.client_flags = flags;
	nbd_conn_move(conn, CONN_OPTION);
	return STEP_AGAIN;
}

/* Refuses an option that is too long to parse, without losing our place in the stream. */
static enum conn_step refuse_long_option(struct nbd_conn *conn)
{
	if (conn->handshake.option_length > OPTION_SKIP_MAX ||
	    conn->handshake.option == NBD_OPT_EXPORT_NAME)
		return nbd_conn_refuse(conn, "an option of absurd length");
	nbd_conn_move(conn, CONN_OPTION_SKIP);
	return STEP_AGAIN;
}

enum conn_step nbd_handshake_option(struct nbd_conn *conn)
{
	struct nbd_option_header header;

	if (!list_is_empty(&conn->output.outs))
		return STEP_WAITS;
	if (nbd_conn_n_input(conn) < sizeof(header))
		return STEP_NEEDS_INPUT;
	memcpy(&header, conn->input.bytes + conn->input.at, sizeof(header));
	conn->input.at += sizeof(header);
	conn->handshake.option = get_be32(header.option);
	conn->handshake.option_length = get_be32(header.length);
	if (get_be64(header.magic) != NBD_OPTION_MAGIC)
		return nbd_conn_refuse(conn, "wrong magic of an option");
	if (!(conn->handshake.client_flags & NBD_FIXED_NEWSTYLE) &&
	    conn->handshake.option != NBD_OPT_EXPORT_NAME)
		return nbd_conn_refuse(conn, "an option that needs the fixed newstyle handshake");
	if (conn->handshake.option_length > CONN_OPTION_MAX)
		return refuse_long_option(conn);
	nbd_conn_move(conn, CONN_OPTION_DATA);
	return STEP_AGAIN;
}

enum conn_step nbd_handshake_option_data(struct nbd_conn *conn)
{
	const uint8_t *data = conn->input.bytes + conn->input.at;
	enum conn_step step;

	if (nbd_conn_n_input(conn) < conn->handshake.option_length)
		return STEP_NEEDS_INPUT;
	conn->input.at += conn->handshake.option_length;
	step = nbd_options_run(conn, data, conn->handshake.option_length);
	if (step == STEP_AGAIN)
		nbd_conn_move(conn, CONN_OPTION);
	if (step != STEP_ABORT)
		nbd_hello_send(conn);
	return step;
}

enum conn_step nbd_handshake_option_skip(struct nbd_conn *conn)
{
	uint32_t n = (uint32_t)MIN(nbd_conn_n_input(conn), conn->handshake.option_length);

	conn->input.at += n;
	conn->handshake.option_length -= n;
	if (conn->handshake.option_length)
		return STEP_NEEDS_INPUT;
	nbd_hello_error(conn, NBD_REP_ERR_TOO_BIG, "the option is too long");
	nbd_hello_send(conn);
	nbd_conn_move(conn, CONN_OPTION);
	return STEP_AGAIN;
}
