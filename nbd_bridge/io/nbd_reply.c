/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies. Once structured replies are negotiated, READ and BLOCK_STATUS must use them; the other
 * commands keep the shorter simple reply, which has a place for everything they return.
 *
 * A reply header is built in the request or the part it belongs to, which stays until it is sent;
 * what is queued holds a reference. Errors carry no text, so no reply has a size that the client
 * chose.
 */
#include <string.h>

#include "base/check.h"
#include "base/probe.h"
#include "nbd_bridge/io/nbd_reply.h"

static_assert(sizeof(struct nbd_chunk_status) <= sizeof(((struct nbd_out *)0)->header),
	      "room for the longest header");
static_assert(sizeof(struct nbd_chunk_error_offset) <= sizeof(((struct nbd_out *)0)->header),
	      "room for the longest header");

static void on_request_sent(struct nbd_out *out)
{
	nbd_request_unref(container_of(out, struct nbd_request, out));
}

static void set_header(struct nbd_out *out, const void *header, size_t n)
{
	memcpy(out->header, header, n);
	out->header_length = (uint32_t)n;
}

static void send_header(struct nbd_request *r, const void *header, size_t n)
{
	set_header(&r->out, header, n);
	r->out.sent = on_request_sent;
	nbd_request_ref(r);
	nbd_conn_send(r->conn, &r->out);
}

static void send_data(struct nbd_part *part, void (*sent)(struct nbd_out *out))
{
	nbd_part_move(part, PART_SENDING);
	part->out.sent = sent;
	part->out.payload = part->payload;
	part->out.payload_length = (uint32_t)part->length;
	nbd_conn_send(part->request->conn, &part->out);
}

static inline void fill_chunk(struct nbd_chunk *chunk, const struct nbd_request *r,
			      enum nbd_chunk_type type, bool is_last, size_t n_bytes)
{
	chunk->magic = put_be32(NBD_CHUNK_MAGIC);
	chunk->flags = put_be16(is_last ? NBD_CHUNK_FLAG_DONE : 0);
	chunk->type = put_be16((uint16_t)type);
	chunk->cookie = r->cookie;
	chunk->length = put_be32((uint32_t)n_bytes);
}

static struct nbd_chunk chunk_of(const struct nbd_request *r, enum nbd_chunk_type type,
				 bool is_last, size_t n_bytes)
{
	struct nbd_chunk chunk;

	fill_chunk(&chunk, r, type, is_last, n_bytes);
	return chunk;
}

void nbd_reply_end(struct nbd_request *r)
{
	nbd_request_move(r, NBD_REQUEST_ANSWERED);
	PROBE(rblk, nbd_reply, r, r->conn, r->error);
	nbd_request_unref(r);
}

static void send_simple(struct nbd_request *r)
{
	struct nbd_simple_reply reply = {
		.magic = put_be32(NBD_SIMPLE_REPLY_MAGIC),
		.error = put_be32(r->error),
		.cookie = r->cookie,
	};

	send_header(r, &reply, sizeof(reply));
}

/* A failed read carries the offset of the failure: data before it may have been sent. */
static void send_structured(struct nbd_request *r)
{
	size_t n_chunk = sizeof(struct nbd_chunk);
	struct nbd_chunk_error_offset reply = {
		.error.error = put_be32(r->error),
		.offset = put_be64(r->error_offset),
	};

	if (!r->error) {
		reply.error.chunk = chunk_of(r, NBD_CHUNK_NONE, true, 0);
		send_header(r, &reply.error.chunk, n_chunk);
	} else if (r->cursor) {
		reply.error.chunk = chunk_of(r, NBD_CHUNK_ERROR_OFFSET, true,
					     sizeof(reply) - n_chunk);
		send_header(r, &reply, sizeof(reply));
	} else {
		reply.error.chunk = chunk_of(r, NBD_CHUNK_ERROR, true,
					     sizeof(reply.error) - n_chunk);
		send_header(r, &reply.error, sizeof(reply.error));
	}
}

void nbd_reply_status(struct nbd_request *r)
{
	bool has_data = r->type == NBD_CMD_READ || r->type == NBD_CMD_BLOCK_STATUS;

	if (r->error) {
		r->conn->n_errors++;
		counter_add(&r->conn->thread->stats.n_errors, 1);
	}
	if (r->conn->replies >= REPLIES_STRUCTURED && has_data)
		send_structured(r);
	else
		send_simple(r);
	nbd_reply_end(r);
}

void nbd_reply_extents(struct nbd_request *r, const struct nbd_extent *extents, unsigned n)
{
	size_t n_bytes = offsetof(struct nbd_chunk_status, extents) + n * sizeof(struct nbd_extent);
	struct nbd_chunk_status reply = {
		.chunk = chunk_of(r, NBD_CHUNK_BLOCK_STATUS, true,
				  n_bytes - sizeof(struct nbd_chunk)),
		.context_id = put_be32(NBD_ALLOCATION_CONTEXT_ID),
	};

	check(n > 0 && n <= NBD_EXTENTS_MAX);
	memcpy(reply.extents, extents, n * sizeof(*extents));
	send_header(r, &reply, n_bytes);
	nbd_reply_end(r);
}

void nbd_reply_chunk(struct nbd_part *part, bool is_last, void (*sent)(struct nbd_out *out))
{
	struct nbd_request *r = part->request;
	struct nbd_chunk_data *header = &part->out.data;

	fill_chunk(&header->chunk, r, NBD_CHUNK_OFFSET_DATA, is_last,
		   sizeof(header->offset) + part->length);
	header->offset = put_be64(part->offset);
	part->out.header_length = sizeof(*header);
	send_data(part, sent);
	if (is_last)
		nbd_reply_end(r);
}

void nbd_reply_ordered_header(struct nbd_request *r)
{
	struct nbd_chunk_data header = {
		.chunk = chunk_of(r, NBD_CHUNK_OFFSET_DATA, true,
				  sizeof(header.offset) + r->length),
		.offset = put_be64(r->offset),
	};

	r->mode = REPLY_BEGUN;
	if (r->conn->replies >= REPLIES_STRUCTURED)
		send_header(r, &header, sizeof(header));
	else
		send_simple(r);
}

void nbd_reply_ordered_data(struct nbd_part *part, void (*sent)(struct nbd_out *out))
{
	list_remove(&part->node);
	part->out.header_length = 0;
	send_data(part, sent);
}
