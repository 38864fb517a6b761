/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: from the header on the wire to the start of their execution.
 *
 * nbd_request_receive takes a header from the input and a request from the connection's
 * pool (an empty pool stops the reading), checks it, and starts it: reads, zeroes, trims
 * and flushes are cut into parts (nbd_io.c), a write first gets its payload
 * (nbd_write.c), the rest is answered at once. A request that fails the check is answered
 * with its error after its payload, if it has one, was swallowed; so a mistake of a
 * client never loses our place in the stream. Only a wrong magic or a payload beyond 32
 * MiB does, and hangs up.
 *
 * A request lives until it is answered, its replies are sent and its parts are back:
 * n_refs.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/probe.h"
#include "nbd_bridge/io/nbd_request.h"
#include "nbd_bridge/io/worker.h"

/* ---- life -------------------------------------------------------------------------- */

static struct nbd_request *request_take(struct nbd_conn *conn)
{
	struct nbd_request *r = list_entry(list_take_first(&conn->free_requests),
					   struct nbd_request, node);

	/* What parse fills in, and out, are not cleared before. */
	r->conn = conn;
	r->cursor = 0;
	r->n_refs = 1;
	r->n_parts = r->n_pending = 0;
	r->mode = REPLY_SIMPLE;
	r->is_starved = r->is_answered = r->is_header_sent = false;
	r->is_dropped = r->must_flush = false;
	list_init(&r->parts);
	conn->n_running++;
	conn->n_requests++;
	counter_add(&conn->worker->stats.n_running, 1);
	return r;
}

void nbd_request_free(struct nbd_request *r)
{
	struct nbd_conn *conn = r->conn;

	check(r->is_answered && !r->is_starved && !r->n_parts);
	if (conn->alone == r)
		conn->alone = NULL;
	list_add_head(&conn->free_requests, &r->node);
	conn->n_running--;
	counter_add(&conn->worker->stats.n_running, (uint64_t)-1);
	if (conn->is_waiting || !list_is_empty(&conn->starved))
		nbd_conn_resume_soon(conn);
	nbd_conn_check_end(conn);
}

static enum nbd_error map_error(const struct nbd_request *r, int error)
{
	switch (-error) {
	case EPERM:
	case EROFS:
		return NBD_EPERM;
	case ENOSPC:
		return r->type == NBD_CMD_READ ? NBD_EINVAL : NBD_ENOSPC;
	case EINVAL:
		return NBD_EINVAL;
	case EOPNOTSUPP:
		return r->flags & NBD_CMD_FLAG_FAST_ZERO ? NBD_ENOTSUP : NBD_EINVAL;
	case ESHUTDOWN:
		return NBD_ESHUTDOWN;
	default:
		return NBD_EIO;
	}
}

void nbd_request_fail(struct nbd_request *r, int error, uint64_t offset)
{
	if (r->error && r->error_offset <= offset)
		return;
	r->error = map_error(r, error);
	r->error_offset = offset;
}

void nbd_request_drop(struct nbd_request *r)
{
	struct nbd_conn *conn = r->conn;
	struct nbd_part *part = conn->filling;

	conn->current = NULL;
	conn->filling = NULL;
	r->is_dropped = true;
	r->cursor = r->length;
	if (part)
		nbd_io_part_done(part, -ESHUTDOWN);
	else
		nbd_io_settle(r);
}

/* ---- validation -------------------------------------------------------------------- */

/* FUA is legal everywhere and means something for what changes data. */
static const struct {
	uint16_t flags;
	bool is_writing;
	bool has_range;
} commands[] = {
	[NBD_CMD_READ] = {NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_DF, false, true},
	[NBD_CMD_WRITE] = {NBD_CMD_FLAG_FUA, true, true},
	[NBD_CMD_FLUSH] = {NBD_CMD_FLAG_FUA, false, false},
	[NBD_CMD_TRIM] = {NBD_CMD_FLAG_FUA, true, true},
	[NBD_CMD_CACHE] = {NBD_CMD_FLAG_FUA, false, true},
	[NBD_CMD_WRITE_ZEROES] = {NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
				  true, true},
	[NBD_CMD_BLOCK_STATUS] = {NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_REQ_ONE, false, true},
};

static enum nbd_error check_flags(const struct nbd_request *r)
{
	const struct nbd_conn *conn = r->conn;

	if (r->type >= ARRAY_LEN(commands) || r->type == NBD_CMD_DISC)
		return NBD_EINVAL;
	if (r->flags & ~commands[r->type].flags)
		return NBD_EINVAL;
	if (r->flags & NBD_CMD_FLAG_DF && !conn->is_structured)
		return NBD_EINVAL;
	if (r->type == NBD_CMD_BLOCK_STATUS && (!conn->has_allocation_context || !r->length))
		return NBD_EINVAL;
	return NBD_SUCCESS;
}

enum nbd_error nbd_request_check(const struct nbd_request *r)
{
	const struct nbd_export *export = r->conn->export;
	uint64_t size = nbd_export_size(export);
	enum nbd_error error = check_flags(r);

	if (error)
		return error;
	if (!commands[r->type].has_range)
		return r->offset || r->length ? NBD_EINVAL : NBD_SUCCESS;
	if (commands[r->type].is_writing && export->is_read_only)
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

/* ---- start ------------------------------------------------------------------------- */

static inline void count(const struct nbd_request *r)
{
	struct worker_stats *stats = &r->conn->worker->stats;

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

static void start_payload(struct nbd_request *r)
{
	struct nbd_conn *conn = r->conn;

	conn->current = r;
	conn->is_bulk = r->length >= CONN_RECV_BYTES;
	if (!r->error) {
		count(r);
		nbd_conn_move(conn, CONN_PAYLOAD);
		return;
	}
	conn->n_skip_bytes = r->length;
	nbd_conn_move(conn, CONN_PAYLOAD_SKIP);
}

static void start(struct nbd_request *r)
{
	if (r->type == NBD_CMD_WRITE && r->length) {
		start_payload(r);
		return;
	}
	r->conn->is_bulk = false;
	if (!r->error)
		count(r);
	if (r->error || r->type == NBD_CMD_CACHE) {
		nbd_reply_status(r);
	} else if (r->type == NBD_CMD_BLOCK_STATUS) {
		nbd_reply_extents(r);
	} else if (r->type == NBD_CMD_READ) {
		nbd_read_start(r);
	} else {
		r->must_flush = r->type == NBD_CMD_FLUSH ||
				(r->type == NBD_CMD_TRIM && r->flags & NBD_CMD_FLAG_FUA);
		nbd_io_issue(r);
	}
}

static struct nbd_request *parse(struct nbd_conn *conn, const struct nbd_request_header *header)
{
	struct nbd_request *r = request_take(conn);

	r->cookie = header->cookie;
	r->type = get_be16(header->type);
	r->flags = get_be16(header->flags);
	r->offset = get_be64(header->offset);
	r->length = get_be32(header->length);
	r->error_offset = r->offset;
	PROBE(rblk, nbd_request, r, r->conn, r->type, r->offset, r->length);
	r->error = conn->is_stopping ? NBD_ESHUTDOWN : nbd_request_check(r);
	return r;
}

enum conn_step nbd_request_receive(struct nbd_conn *conn)
{
	struct nbd_request_header header;

	if (conn->alone || !list_is_empty(&conn->starved))
		return STEP_WAITS;
	if (nbd_conn_n_input(conn) < sizeof(header))
		return STEP_NEEDS_INPUT;
	if (list_is_empty(&conn->free_requests))
		return STEP_WAITS;
	memcpy(&header, conn->in + conn->in_at, sizeof(header));
	conn->in_at += sizeof(header);
	if (get_be32(header.magic) != NBD_REQUEST_MAGIC) {
		nbd_conn_abort(conn, "wrong magic of a request");
	} else if (get_be16(header.type) == NBD_CMD_DISC) {
		nbd_conn_drain(conn);
	} else if (get_be16(header.type) == NBD_CMD_WRITE &&
		   get_be32(header.length) > NBD_PAYLOAD_MAX) {
		nbd_conn_abort(conn, "a payload of absurd length");
	} else {
		start(parse(conn, &header));
	}
	return STEP_AGAIN;
}

enum conn_step nbd_request_skip_payload(struct nbd_conn *conn)
{
	struct nbd_request *r = conn->current;
	uint32_t n = (uint32_t)MIN(nbd_conn_n_input(conn), conn->n_skip_bytes);

	conn->in_at += n;
	conn->n_skip_bytes -= n;
	if (conn->n_skip_bytes)
		return STEP_NEEDS_INPUT;
	conn->current = NULL;
	nbd_conn_move(conn, CONN_REQUEST);
	nbd_reply_status(r);
	return STEP_AGAIN;
}
