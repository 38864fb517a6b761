/* SPDX-License-Identifier: BSD-3-Clause */
/* The option STARTTLS, and what a server that requires it refuses. Thread: the worker's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "nbd_bridge/io/nbd_conn.h"

/* The option that was read is for TLS clients only, and this client has not asked for it yet. */
bool nbd_starttls_is_due(const struct nbd_conn *conn);
/* The answer to such an option: an error, or the end where the option has none. */
enum conn_step nbd_starttls_refuse(struct nbd_conn *conn);
/* STARTTLS with n_data bytes, which may have none: what is received next is TLS. */
enum conn_step nbd_starttls_run(struct nbd_conn *conn, size_t n_data);
