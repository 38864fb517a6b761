/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the handshake. Thread: the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_conn.h"

/* Answers the current option (conn.handshake.option) with the data data[0..length): appends
 * replies. STEP_AGAIN: the handshake goes on. STEP_TRANSMIT: it is over, and the connection is
 * counted in export.n_established. STEP_DRAIN, STEP_ABORT: it ends. */
enum conn_step nbd_options_run(struct nbd_conn *conn, const uint8_t *data, uint32_t length);
