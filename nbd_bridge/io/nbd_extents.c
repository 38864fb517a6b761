/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block status: the volume is asked which blocks are holes, and its answer becomes the reply. A
 * hole reads as zeroes, or it is not called one. The volume answers for whole blocks; the reply has
 * the client's bytes, and may describe less than was asked for, as the protocol allows.
 *
 * The reply is as old as the volume's answer. A client that has the reply to a write before it asks
 * finds that write's blocks allocated, on each connection; a write that is still running may be
 * missing, and the protocol promises no more.
 */
#include "base/bits.h"
#include "base/check.h"
#include "nbd_bridge/io/nbd_extents.h"
#include "nbd_bridge/io/nbd_reply.h"

static_assert((unsigned)NBD_EXTENTS_MAX == (unsigned)VOLUME_RUNS_MAX, "each run is an extent");

/* The reply's extents: those of the answer, cut to the request. */
static void on_known(struct volume_extents *ask)
{
	struct nbd_request *r = container_of(ask, struct nbd_request, extents);
	uint64_t skip = r->offset - ask->offset, left = r->length;
	unsigned n_max = r->flags & NBD_CMD_FLAG_REQ_ONE ? 1 : NBD_EXTENTS_MAX;
	struct nbd_extent extents[NBD_EXTENTS_MAX];
	unsigned n = 0;

	check(ask->n > 0 && ask->runs[0].length > skip);
	while (n < MIN(ask->n, n_max) && left) {
		uint64_t length = MIN(ask->runs[n].length - skip, left);

		extents[n] = (struct nbd_extent){
			.length = put_be32((uint32_t)length),
			.flags = put_be32(ask->runs[n].is_hole ? NBD_STATE_HOLE | NBD_STATE_ZERO
							       : 0),
		};
		left -= length;
		skip = 0;
		n++;
	}
	nbd_reply_extents(r, extents, n);
}

void nbd_extents_start(struct nbd_request *r)
{
	uint32_t block_size = r->conn->export->block_size;

	r->extents.offset = align_down(r->offset, block_size);
	r->extents.length = align_up(r->offset + r->length, block_size) - r->extents.offset;
	r->extents.done = on_known;
	volume_extents_ask(r->conn->thread->queue, &r->extents);
}
