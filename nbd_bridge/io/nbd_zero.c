/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands without a payload that change data or make it durable: WRITE_ZEROES, TRIM, FLUSH.
 *
 * Zeroes go to the target as one Write Zeroes command for all whole blocks; the volume splits it. A
 * target that lacks the command gets buffers of zeros. Pieces of blocks at the ends are
 * read-modify-writes like those of a write. A trim is a hint and leaves pieces of blocks alone.
 *
 * NVMe Flush covers the whole namespace, so a flush on this queue also covers what was written, and
 * answered, on the others: that is what NBD_FLAG_CAN_MULTI_CONN promises. FUA on a trim becomes a
 * flush behind it.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "nbd_bridge/io/nbd_io.h"
#include "nbd_bridge/io/nbd_write.h"
#include "nbd_bridge/io/nbd_zero.h"

bool nbd_zero_issue_one(struct nbd_request *r)
{
	struct nbd_part *part = nbd_write_take(r, !r->conn->export->has_write_zeroes);

	if (!part)
		return false;
	if (part->buffer)
		memset(part->payload, 0, part->length);
	nbd_write_run(part, part->buffer ? VOLUME_WRITE : VOLUME_WRITE_ZEROES);
	return true;
}

static void on_flushed(struct volume_io *io, int error)
{
	nbd_io_part_done(container_of(io, struct nbd_part, io), error);
}

bool nbd_zero_flush_one(struct nbd_request *r)
{
	struct nbd_part *part = nbd_part_take(r, 0, 0, 0);

	if (!part)
		return false;
	r->must_flush = false;
	nbd_part_submit(part, VOLUME_FLUSH, 0, 0, NULL, on_flushed);
	return true;
}

bool nbd_zero_trim_one(struct nbd_request *r)
{
	uint32_t block_size = r->conn->export->block_size;
	uint64_t first = align_up(r->offset, block_size);
	uint64_t end = align_down(r->offset + r->length, block_size);
	struct nbd_part *part;

	if (r->cursor == r->length)
		return nbd_zero_flush_one(r); /* FUA */
	if (first >= end) {
		r->cursor = r->length;
		return true;
	}
	part = nbd_part_take(r, first, end - first, 0);
	if (!part)
		return false;
	r->cursor = r->length;
	nbd_write_run(part, VOLUME_TRIM);
	return true;
}
