/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * STARTTLS, as the NBD protocol has it. The acknowledgement leaves as plain text; the first bytes
 * that are received then are the client's handshake of TLS (nbd_tls.c), which its first read does.
 *
 * An attacker on the way can add options to plain text, so what was agreed on before is void. What
 * came behind STARTTLS in the same bytes is no part of the encrypted stream: it ends the
 * connection, as a client waits for the answer.
 */
#include "nbd_bridge/io/nbd_hello.h"
#include "nbd_bridge/io/nbd_starttls.h"

bool nbd_starttls_is_due(const struct nbd_conn *conn)
{
	return conn->client == CLIENT_TCP && conn->export->tls_policy == NBD_TLS_REQUIRE &&
	       !conn->tls && conn->handshake.option != NBD_OPT_STARTTLS &&
	       conn->handshake.option != NBD_OPT_ABORT;
}

enum conn_step nbd_starttls_refuse(struct nbd_conn *conn)
{
	if (conn->handshake.option == NBD_OPT_EXPORT_NAME)
		return nbd_conn_refuse(conn, "EXPORT_NAME without TLS");
	nbd_hello_error(conn, NBD_REP_ERR_TLS_REQD, "this server requires TLS");
	return STEP_AGAIN;
}

enum conn_step nbd_starttls_run(struct nbd_conn *conn, size_t n_data)
{
	const struct nbd_export *export = conn->export;

	if (conn->client != CLIENT_TCP || export->tls_policy == NBD_TLS_OFF) {
		nbd_hello_error(conn, NBD_REP_ERR_UNSUP, "this server does not do TLS here");
		return STEP_AGAIN;
	}
	if (n_data || conn->tls) {
		nbd_hello_error(conn, NBD_REP_ERR_INVALID, "malformed option, or TLS is on");
		return STEP_AGAIN;
	}
	if (nbd_conn_n_input(conn))
		return nbd_conn_refuse(conn, "plain text behind STARTTLS");
	conn->tls = nbd_tls_new(export->tls_keys, conn->fd);
	if (!conn->tls)
		return nbd_conn_refuse(conn, "no memory for TLS");
	conn->replies = REPLIES_SIMPLE;
	conn->handshake.meta_name[0] = '\0';
	nbd_hello_reply(conn, NBD_REP_ACK, NULL, 0);
	return STEP_AGAIN;
}
