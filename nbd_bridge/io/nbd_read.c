/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads. The volume reads whole blocks into registered memory, and the client's bytes leave from
 * there, without a copy. The client's abilities decide how:
 *
 *   chunks    Structured replies: each part is a chunk, sent when it was read, in any order; a
 *             failed read ends in an error chunk.
 *   ordered   Simple replies, and structured ones that must not be fragmented (DF): one header,
 *             then all data. The header holds the result, so all parts are read first; their
 *             memory is taken all at once or not at all, as two reads that hold a half each would
 *             wait for ever.
 *   stream    An ordered read for which there is not that much memory. The header goes out when
 *             the first part was read, the parts follow in order; the request runs alone on its
 *             connection, as nothing may come in between. The protocol has no message for a later
 *             part that fails: the connection is closed, as the specification demands.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "nbd_bridge/io/nbd_io.h"
#include "nbd_bridge/io/nbd_read.h"
#include "nbd_bridge/io/nbd_reply.h"

static struct nbd_part *first_part(const struct nbd_request *r)
{
	return list_is_empty(&r->parts) ? NULL : list_entry(r->parts.next, struct nbd_part, node);
}

/* REPLY_BEGUN: an ordered read has no part left to come then. */
static bool is_streaming(const struct nbd_request *r)
{
	return r->mode == REPLY_STREAM || r->mode == REPLY_BEGUN;
}

/* There is room for a further part. */
static void on_part_sent(struct nbd_out *out)
{
	nbd_io_part_over(container_of(out, struct nbd_part, out));
}

/* Sends what was read and is next in order. */
static void send_in_order(struct nbd_request *r)
{
	struct nbd_part *part;

	while (!r->error && (part = first_part(r)) && part->state == PART_READ) {
		if (r->mode != REPLY_BEGUN)
			nbd_reply_ordered_header(r);
		nbd_reply_ordered_data(part, on_part_sent);
	}
}

static void on_read(struct volume_io *io, int error)
{
	struct nbd_part *part = container_of(io, struct nbd_part, io);
	struct nbd_request *r = part->request;

	if (error) {
		nbd_io_part_done(part, error);
		return;
	}
	nbd_part_came_back(part);
	if (r->mode == REPLY_CHUNKS) {
		nbd_reply_chunk(part, !r->error && !r->n_pending && !nbd_io_has_more(r),
				on_part_sent);
	} else {
		nbd_part_move(part, PART_READ);
		if (is_streaming(r))
			send_in_order(r);
	}
	nbd_io_settle(r);
}

/* The blocks that cover the next part. */
static struct nbd_part *take_next(struct nbd_request *r)
{
	const struct nbd_export *export = r->conn->export;
	uint64_t start = r->offset + r->cursor;
	uint64_t first = align_down(start, export->block_size);
	uint64_t end = MIN(first + export->max_io_bytes, r->offset + r->length);
	uint32_t n_bytes = (uint32_t)(align_up(end, export->block_size) - first);
	struct nbd_part *part = nbd_part_take(r, start, end - start, n_bytes);

	if (!part)
		return NULL;
	part->payload = part->buffer + (start - first);
	r->cursor += (uint32_t)part->length;
	if (r->mode != REPLY_CHUNKS)
		list_add_tail(&r->parts, &part->node);
	return part;
}

static void submit(struct nbd_part *part)
{
	uint64_t first = part->offset - (uint64_t)(part->payload - part->buffer);

	nbd_part_submit(part, VOLUME_READ, first, part->n_buffer_bytes, part->buffer, on_read);
}

bool nbd_read_issue_one(struct nbd_request *r)
{
	struct nbd_part *part;

	if (is_streaming(r) && r->conn->n_running > 1)
		return false;
	part = take_next(r);
	if (!part)
		return false;
	submit(part);
	return true;
}

static void give_unsent(struct nbd_request *r)
{
	struct nbd_part *part;

	while ((part = first_part(r)))
		nbd_request_unref(nbd_part_give(part));
}

/* All the parts, or none. */
static bool gather(struct nbd_request *r)
{
	while (r->cursor < r->length) {
		if (r->n_parts < r->command->max_parts && take_next(r))
			continue;
		nbd_part_stop_waiting(r->conn);
		r->n_pending = 0;
		r->cursor = 0;
		give_unsent(r);
		return false;
	}
	list_for_each (node, &r->parts)
		submit(list_entry(node, struct nbd_part, node));
	return true;
}

static void start_ordered(struct nbd_request *r)
{
	const struct nbd_export *export = r->conn->export;
	uint64_t n_head = r->offset & (export->block_size - 1);
	bool is_one = n_head + r->length <= export->max_io_bytes;

	r->mode = REPLY_ORDERED;
	if (!is_one && gather(r))
		return;
	if (!is_one) {
		r->mode = REPLY_STREAM;
		r->conn->alone = r;
	}
	nbd_io_issue(r);
}

void nbd_read_start(struct nbd_request *r)
{
	if (!r->length) {
		nbd_reply_status(r);
	} else if (r->conn->replies < REPLIES_STRUCTURED || r->flags & NBD_CMD_FLAG_DF) {
		start_ordered(r);
	} else {
		r->mode = REPLY_CHUNKS;
		nbd_io_issue(r);
	}
}

void nbd_read_finish(struct nbd_request *r)
{
	if (r->error) {
		nbd_request_ref(r);
		give_unsent(r);
		if (r->mode == REPLY_BEGUN) {
			nbd_reply_end(r);
			nbd_conn_fail(r->conn, "a read failed behind its header");
		} else {
			nbd_reply_status(r);
		}
		nbd_request_unref(r);
		return;
	}
	check(r->mode == REPLY_ORDERED || is_streaming(r));
	nbd_request_ref(r);
	send_in_order(r);
	nbd_reply_end(r);
	nbd_request_unref(r);
}
