/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake: bytes and order; nbd_options.c knows the options. Thread: the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_conn.h"

/* Sends the greeting. */
void nbd_handshake_start(struct nbd_conn *conn);

/* Steps of the connection's input machine, in the state of the same name. */
enum conn_step nbd_handshake_client_flags(struct nbd_conn *conn);
enum conn_step nbd_handshake_option(struct nbd_conn *conn);
enum conn_step nbd_handshake_option_data(struct nbd_conn *conn);
enum conn_step nbd_handshake_option_skip(struct nbd_conn *conn);
