/* SPDX-License-Identifier: BSD-3-Clause */
/* NBD_CMD_WRITE, and what else changes data under the range lock (nbd_zero.c). Thread: the
 * worker's. */
#pragma once

#include "nbd_bridge/io/nbd_part.h"

/* Step of the input machine in CONN_PAYLOAD: receives into parts, and runs each that is
 * complete. */
enum conn_step nbd_write_payload(struct nbd_conn *conn);

/* A part for one command of the request, from the cursor on, cut at the edges of blocks; less than
 * a block makes it a read-modify-write. with_data: it has a buffer and is at most max_io_bytes
 * long. NULL: no memory, see nbd_part_take. */
struct nbd_part *nbd_write_take(struct nbd_request *request, bool with_data);
/* Runs op for the part under the range lock, then nbd_io_part_done. */
void nbd_write_run(struct nbd_part *part, enum volume_op op);
