/* SPDX-License-Identifier: BSD-3-Clause */
/* When a request makes parts, when it waits for memory, and when it is done. Thread: the
 * worker's. */
#pragma once

#include <stdbool.h>

#include "nbd_bridge/io/nbd_part.h"

enum {
	NBD_IO_PARTS =
		16, /* of one request, so that it cannot take all (struct nbd_command_rule) */
};

/* Makes parts for what is left of the request, as far as there is memory; without, it waits in
 * conn.starved and goes on by itself. Finishes it when nothing is left. */
void nbd_io_issue(struct nbd_request *request);
/* Goes on with the starved ones; true when none is left. */
bool nbd_io_issue_starved(struct nbd_conn *conn);
/* After a part came back or was sent: makes further parts, or answers when that was all. */
void nbd_io_settle(struct nbd_request *request);
/* The part is of no use any more, because it was sent or failed: gives it, settles its request. */
void nbd_io_part_over(struct nbd_part *part);
/* The volume is done with a part of a write, zero, trim or flush, or a read has failed: as
 * nbd_io_part_over. error: 0 or -errno. */
void nbd_io_part_done(struct nbd_part *part, int error);
/* The payload of a write stopped coming: what was written stays, there is no answer. */
void nbd_io_drop(struct nbd_request *request);
/* The client is gone: nothing of its I/O is sent to the target any more, and the log has how many
 * were taken back; those that are on the wire come back by themselves. */
void nbd_io_take_back(struct nbd_conn *conn);
/* Is there a request that may still change the volume? */
bool nbd_io_has_writes(const struct nbd_conn *conn);

/* Is there something for which no part was made yet? */
static inline bool nbd_io_has_more(const struct nbd_request *request)
{
	return request->cursor < request->length || request->must_flush;
}
