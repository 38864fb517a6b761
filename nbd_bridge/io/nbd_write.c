/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes. The payload is received into registered memory, a part at a time, and each part is
 * written when it is complete; a client that stalls or dies in the middle of a part leaves that
 * part unwritten. The range lock is taken after the payload is there, so a slow client delays no
 * other.
 *
 *   whole blocks        -> lock the range, shared    -> write                -> unlock -> done
 *   less than a block   -> lock the block, exclusive -> read, change, write  -> unlock -> done
 *
 * A request is cut at the edges of blocks, so that at most its first and its last block need the
 * detour. Such a part has memory for two blocks: the payload, and behind it the block.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "nbd_bridge/io/nbd_io.h"
#include "nbd_bridge/io/nbd_write.h"

static uint64_t cut(const struct nbd_export *export, uint64_t offset, uint64_t length,
		    uint64_t max_bytes, bool *ret_is_rmw)
{
	uint64_t in_block = offset & (export->block_size - 1);

	*ret_is_rmw = in_block || length < export->block_size;
	if (*ret_is_rmw)
		return MIN(length, export->block_size - in_block);
	return MIN(align_down(length, export->block_size), max_bytes);
}

struct nbd_part *nbd_write_take(struct nbd_request *r, bool with_data)
{
	const struct nbd_export *export = r->conn->export;
	uint64_t offset = r->offset + r->cursor;
	bool is_rmw;
	uint64_t n = cut(export, offset, r->length - r->cursor,
			 with_data ? export->max_io_bytes : UINT64_MAX, &is_rmw);
	uint64_t n_buffer = is_rmw ? 2 * export->block_size : with_data ? n : 0;
	struct nbd_part *part = nbd_part_take(r, offset, n, (uint32_t)n_buffer);

	if (!part)
		return NULL;
	part->is_rmw = is_rmw;
	r->cursor += (uint32_t)n;
	return part;
}

/* ---- running ----------------------------------------------------------------------- */

static void on_done(struct volume_io *io, int error)
{
	struct nbd_part *part = container_of(io, struct nbd_part, io);

	range_lock_release(&part->lock);
	nbd_io_part_done(part, error);
}

static void on_block_read(struct volume_io *io, int error)
{
	struct nbd_part *part = container_of(io, struct nbd_part, io);
	uint32_t block_size = part->request->conn->export->block_size;
	uint8_t *block = part->buffer + block_size;

	if (!error && part->request->conn->state == CONN_CLOSED)
		error = -ECANCELED;
	if (error) {
		on_done(io, error);
		return;
	}
	memcpy(block + (part->offset - io->offset), part->payload, part->length);
	nbd_part_submit(part, VOLUME_WRITE, io->offset, block_size, block, on_done);
}

static void run_locked(struct range_waiter *waiter)
{
	struct nbd_part *part = container_of(waiter, struct nbd_part, lock);
	uint32_t block_size = part->request->conn->export->block_size;

	if (part->request->conn->state == CONN_CLOSED) /* it waited, and the client has gone */
		on_done(&part->io, -ECANCELED);
	else if (part->is_rmw)
		nbd_part_submit(part, VOLUME_READ, align_down(part->offset, block_size), block_size,
				part->buffer + block_size, on_block_read);
	else
		nbd_part_submit(part, part->op, part->offset, part->length, part->buffer, on_done);
}

void nbd_write_run(struct nbd_part *part, enum volume_op op)
{
	struct nbd_conn *conn = part->request->conn;

	if (part->is_rmw)
		counter_add(&conn->thread->stats.n_rmw, 1);
	part->op = op;
	part->lock.on_granted = run_locked;
	part->lock.loop = &conn->thread->loop;
	nbd_part_move(part, PART_LOCKING);
	if (range_lock_acquire(&conn->export->locks, &part->lock, part->offset, part->length,
			       part->is_rmw))
		run_locked(&part->lock);
}

/* ---- payload ----------------------------------------------------------------------- */

static void copy_received(struct nbd_conn *conn, struct nbd_part *part)
{
	uint32_t n = (uint32_t)MIN(nbd_conn_n_input(conn), part->length - part->n_filled);

	memcpy(part->payload + part->n_filled, conn->input.bytes + conn->input.at, n);
	part->n_filled += n;
	conn->input.at += n;
}

enum conn_step nbd_write_payload(struct nbd_conn *conn)
{
	struct nbd_request *r = conn->input.current;
	struct nbd_part *part = conn->input.filling;

	if (!part) {
		part = nbd_write_take(r, true);
		if (!part)
			return STEP_WAITS;
		nbd_part_move(part, PART_FILLING);
		conn->input.filling = part;
	}
	copy_received(conn, part);
	if (part->n_filled < part->length)
		return STEP_NEEDS_INPUT;
	if (!part->buffer && !nbd_part_copy_in(part))
		return STEP_WAITS;
	conn->input.filling = NULL;
	if (r->cursor == r->length) {
		conn->input.current = NULL;
		nbd_conn_move(conn, CONN_REQUEST);
	}
	nbd_write_run(part, VOLUME_WRITE);
	return STEP_AGAIN;
}
