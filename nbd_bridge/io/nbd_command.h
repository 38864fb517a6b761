/* SPDX-License-Identifier: BSD-3-Clause */
/* The transmission phase's steps of the input machine. Thread: the worker's. */
#pragma once

#include "nbd_bridge/io/nbd_conn.h"

/* CONN_REQUEST: takes one header, checks it and starts the request. */
enum conn_step nbd_command_receive(struct nbd_conn *conn);
/* CONN_PAYLOAD_SKIP: skips the payload of a write that was refused, then answers it. */
enum conn_step nbd_command_skip_payload(struct nbd_conn *conn);
