/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands: from the header on the wire to the start of their execution.
 *
 * nbd_command_receive takes a header from the input and a request from the connection's pool (an
 * empty pool stops the reading), checks it, and starts it: reads, zeroes, trims and flushes are cut
 * into parts (nbd_io.c), a write first gets its payload (nbd_write.c), the rest is answered at
 * once. A request that fails the check is answered with its error after its payload, if it has one,
 * was skipped; so we keep our place in the stream whatever a client asks for. Only a wrong magic or
 * a payload beyond 32 MiB ends the connection.
 *
 * A new command is a row of the table here, and a file that makes its parts.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/probe.h"
#include "nbd_bridge/io/nbd_command.h"
#include "nbd_bridge/io/nbd_extents.h"
#include "nbd_bridge/io/nbd_io.h"
#include "nbd_bridge/io/nbd_read.h"
#include "nbd_bridge/io/nbd_reply.h"
#include "nbd_bridge/io/nbd_zero.h"

/* The specification allows FUA on every command; it takes effect on those that change data. */
static const struct nbd_command_rule commands[] = {
	[NBD_CMD_READ] = {.flags = NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_DF,
			  .has_range = true,
			  .max_parts = NBD_IO_PARTS,
			  .issue_one = nbd_read_issue_one,
			  .finish = nbd_read_finish},
	/* Its parts are made by the payload that arrives: nbd_write_payload. */
	[NBD_CMD_WRITE] = {.flags = NBD_CMD_FLAG_FUA,
			   .is_writing = true,
			   .has_range = true,
			   .finish = nbd_reply_status},
	[NBD_CMD_FLUSH] = {.flags = NBD_CMD_FLAG_FUA,
			   .max_parts = 1,
			   .issue_one = nbd_zero_flush_one,
			   .finish = nbd_reply_status},
	[NBD_CMD_TRIM] = {.flags = NBD_CMD_FLAG_FUA,
			  .is_writing = true,
			  .has_range = true,
			  .max_parts = NBD_IO_PARTS,
			  .issue_one = nbd_zero_trim_one,
			  .finish = nbd_reply_status},
	[NBD_CMD_CACHE] = {.flags = NBD_CMD_FLAG_FUA, .has_range = true},
	[NBD_CMD_WRITE_ZEROES] = {.flags = NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE |
					   NBD_CMD_FLAG_FAST_ZERO,
				  .is_writing = true,
				  .has_range = true,
				  .max_parts = NBD_ZERO_PARTS,
				  .issue_one = nbd_zero_issue_one,
				  .finish = nbd_reply_status},
	[NBD_CMD_BLOCK_STATUS] = {.flags = NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_REQ_ONE,
				  .has_range = true},
};

static enum nbd_error check_flags(const struct nbd_request *r)
{
	const struct nbd_conn *conn = r->conn;

	if (!r->command)
		return NBD_EINVAL;
	if (r->flags & ~r->command->flags)
		return NBD_EINVAL;
	if (r->flags & NBD_CMD_FLAG_DF && conn->replies < REPLIES_STRUCTURED)
		return NBD_EINVAL;
	if (r->type == NBD_CMD_BLOCK_STATUS && (conn->replies < REPLIES_WITH_STATUS || !r->length))
		return NBD_EINVAL;
	return NBD_SUCCESS;
}

/* The header against the protocol, what was negotiated on its connection, and the bounds of the
 * export. */
static enum nbd_error check_request(const struct nbd_request *r)
{
	const struct nbd_export *export = r->conn->export;
	uint64_t size = nbd_export_size(export);
	enum nbd_error error = check_flags(r);

	if (error)
		return error;
	if (!r->command->has_range)
		return r->offset || r->length ? NBD_EINVAL : NBD_SUCCESS;
	if (r->command->is_writing && export->is_read_only)
		return NBD_EPERM;
	if (r->offset > size || r->length > size - r->offset)
		return r->type == NBD_CMD_WRITE || r->type == NBD_CMD_WRITE_ZEROES ? NBD_ENOSPC
										   : NBD_EINVAL;
	if (r->type == NBD_CMD_READ && r->length > NBD_PAYLOAD_MAX)
		return NBD_EINVAL;
	if (r->type == NBD_CMD_TRIM && !export->has_trim)
		return NBD_EINVAL;
	if (r->flags & NBD_CMD_FLAG_FAST_ZERO && !export->has_write_zeroes)
		return NBD_ENOTSUP;
	return NBD_SUCCESS;
}

static inline void count(const struct nbd_request *r)
{
	struct nbd_stats *stats = &r->conn->thread->stats;

	if (r->type == NBD_CMD_READ) {
		counter_add(&stats->n_reads, 1);
		counter_add(&stats->n_read_bytes, r->length);
	} else if (r->type == NBD_CMD_WRITE) {
		counter_add(&stats->n_writes, 1);
		counter_add(&stats->n_written_bytes, r->length);
	} else {
		counter_add(&stats->n_others, 1);
	}
}

static void expect_payload(struct nbd_request *r, enum conn_state state)
{
	struct conn_input *input = &r->conn->input;

	input->current = r;
	input->is_bulk = r->length >= CONN_RECV_BYTES;
	nbd_conn_move(r->conn, state);
}

static NOINLINE void refuse(struct nbd_request *r)
{
	if (r->type == NBD_CMD_WRITE && r->length) {
		r->conn->input.n_skip_bytes = r->length;
		expect_payload(r, CONN_PAYLOAD_SKIP);
	} else {
		nbd_reply_status(r);
	}
}

static void start(struct nbd_request *r)
{
	r->conn->input.is_bulk = false;
	if (UNLIKELY(r->error)) {
		refuse(r);
		return;
	}
	count(r);
	switch (r->type) {
	case NBD_CMD_READ:
		nbd_read_start(r);
		break;
	case NBD_CMD_WRITE:
		if (r->length)
			expect_payload(r, CONN_PAYLOAD);
		else
			nbd_reply_status(r);
		break;
	case NBD_CMD_CACHE:
		nbd_reply_status(r);
		break;
	case NBD_CMD_BLOCK_STATUS:
		nbd_extents_start(r);
		break;
	default:
		r->must_flush = r->type == NBD_CMD_FLUSH ||
				(r->type == NBD_CMD_TRIM && r->flags & NBD_CMD_FLAG_FUA);
		nbd_io_issue(r);
	}
}

/* NULL: there is no such command. The row of NBD_CMD_DISC is empty; it never gets here. */
static const struct nbd_command_rule *find_command(uint16_t type)
{
	return type < ARRAY_LEN(commands) ? &commands[type] : NULL;
}

static struct nbd_request *parse(struct nbd_conn *conn, const struct nbd_request_header *header)
{
	struct nbd_request *r = nbd_request_take(conn);

	r->cookie = header->cookie;
	r->type = get_be16(header->type);
	r->command = find_command(r->type);
	r->flags = get_be16(header->flags);
	r->offset = get_be64(header->offset);
	r->length = get_be32(header->length);
	r->error_offset = r->offset;
	PROBE(rblk, nbd_request, r, r->conn, r->type, r->offset, r->length);
	r->error = conn->end == END_STOPPING ? NBD_ESHUTDOWN : check_request(r);
	return r;
}

static inline enum conn_step receive_one(struct nbd_conn *conn)
{
	const struct nbd_request_header *header;

	if (conn->alone || conn->must_leave || !list_is_empty(&conn->starved))
		return STEP_WAITS;
	if (nbd_conn_n_input(conn) < sizeof(*header))
		return STEP_NEEDS_INPUT;
	if (!conn->free_requests)
		return STEP_WAITS;
	/* It stays there until the next bytes are received. */
	header = (const void *)(conn->input.bytes + conn->input.at);
	conn->input.at += sizeof(*header);
	if (get_be32(header->magic) != NBD_REQUEST_MAGIC)
		return nbd_conn_refuse(conn, "wrong magic of a request");
	if (get_be16(header->type) == NBD_CMD_DISC)
		return STEP_DRAIN;
	if (get_be16(header->type) == NBD_CMD_WRITE && get_be32(header->length) > NBD_PAYLOAD_MAX)
		return nbd_conn_refuse(conn, "a payload of absurd length");
	start(parse(conn, header));
	return STEP_AGAIN;
}

/* Requests without a payload follow each other here, as most do. */
enum conn_step nbd_command_receive(struct nbd_conn *conn)
{
	enum conn_step step;

	do
		step = receive_one(conn);
	while (step == STEP_AGAIN && conn->state == CONN_REQUEST);
	return step;
}

enum conn_step nbd_command_skip_payload(struct nbd_conn *conn)
{
	struct nbd_request *r = conn->input.current;
	uint32_t n = (uint32_t)MIN(nbd_conn_n_input(conn), conn->input.n_skip_bytes);

	conn->input.at += n;
	conn->input.n_skip_bytes -= n;
	if (conn->input.n_skip_bytes)
		return STEP_NEEDS_INPUT;
	conn->input.current = NULL;
	nbd_conn_move(conn, CONN_REQUEST);
	nbd_reply_status(r);
	return STEP_AGAIN;
}
