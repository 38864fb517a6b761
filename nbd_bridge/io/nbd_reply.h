/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies of the transmission phase: built here, sent by the session at the end of the turn.
 * Thread: the worker's. None of these calls back before it returns, but nbd_reply_end, and
 * nbd_reply_status with it, may give the request's last reference back.
 */
#pragma once

#include "nbd_bridge/io/nbd_part.h"

/* The request is done, without data (any command), or failed before data was sent. */
void nbd_reply_status(struct nbd_request *request);
/* The answer to BLOCK_STATUS: 1 to NBD_EXTENTS_MAX extents. */
void nbd_reply_extents(struct nbd_request *request, const struct nbd_extent *extents, unsigned n);
/* Data of one part as a chunk of its own. sent owns the part again. */
void nbd_reply_chunk(struct nbd_part *part, bool is_last, void (*sent)(struct nbd_out *out));
/* The header before the parts of an ordered read, and each of them, taken off request.parts. */
void nbd_reply_ordered_header(struct nbd_request *request);
void nbd_reply_ordered_data(struct nbd_part *part, void (*sent)(struct nbd_out *out));
/* Nothing further will be queued for it: gives its first reference back. */
void nbd_reply_end(struct nbd_request *request);
