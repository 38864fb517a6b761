/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Execution: a request becomes parts, each one I/O of the volume with at most
 * max_io_bytes.
 *
 *   FREE -> TAKEN -> FILLING -> LOCKING -> WRITING -> FREE     a write (FILLING: its
 * payload comes)
 *                                 |-> READING -> WRITING       read-modify-write
 *           TAKEN -> READING -> SENDING -> FREE                a read, sent as it comes
 *                      |-> READ -> SENDING                     a read that waits for its
 * turn
 *
 * nbd_io_issue makes parts from the request's cursor on until it is exhausted, until it
 * has CONN_REQUEST_PARTS of them (the next is made when one comes back), or until there
 * is no memory. In that last case the request is starved: it waits in conn.starved, and
 * the connection reads no further requests, until the volume has a buffer again or one of
 * its own came back.
 *
 * All memory is bounded and there from the start: parts and requests in the connection's
 * pools, buffers in the slab of the worker's queue, of which one connection gets a share.
 * Nothing waits for memory while it holds memory that only it could give back, so there
 * is no deadlock: a part takes all it needs at once, a gathered read takes all its parts
 * or none (nbd_read.c).
 *
 * The first error of a request stops the making of further parts; parts on their way
 * finish.
 *
 * A client that is gone has no claim that its I/O is done, and another may have taken its place: what
 * is not on the wire yet is taken back (nbd_io_take_back), and what has no I/O yet makes none.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/log.h"
#include "base/states.h"
#include "nbd_bridge/io/nbd_request.h"
#include "nbd_bridge/io/worker.h"

#define TO(s) STATE_TO(PART_##s)
static const struct state_rule rules[] = {
	[PART_FREE] = {"free", TO(TAKEN)},
	[PART_TAKEN] = {"taken", TO(FREE) | TO(FILLING) | TO(LOCKING) | TO(READING) | TO(WRITING)},
	[PART_FILLING] = {"filling", TO(FREE) | TO(LOCKING) | TO(WRITING)},
	[PART_LOCKING] = {"locking", TO(FREE) | TO(READING) | TO(WRITING)},
	[PART_READING] = {"reading", TO(FREE) | TO(WRITING) | TO(READ) | TO(SENDING)},
	[PART_WRITING] = {"writing", TO(FREE)},
	[PART_READ] = {"read", TO(FREE) | TO(SENDING)},
	[PART_SENDING] = {"sending", TO(FREE)},
};
#undef TO

void nbd_part_move(struct nbd_part *part, enum part_state state)
{
	states_move("nbd_part", rules, &part->state, state);
}

/* ---- taking and giving ------------------------------------------------------------- */

static void on_buffer_free(struct loop_call *call)
{
	struct nbd_conn *conn = container_of(call, struct nbd_conn, buffer_waiter);

	conn->is_waiting_for_buffer = false;
	nbd_conn_resume_soon(conn);
}

void nbd_io_stop_waiting(struct nbd_conn *conn)
{
	if (!conn->is_waiting_for_buffer)
		return;
	conn->is_waiting_for_buffer = false;
	volume_buffer_wait_cancel(conn->worker->queue, &conn->buffer_waiter);
}

static void wait_for_buffer(struct nbd_conn *conn)
{
	if (conn->is_waiting_for_buffer)
		return;
	conn->is_waiting_for_buffer = true;
	conn->buffer_waiter.run = on_buffer_free;
	volume_buffer_wait(conn->worker->queue, &conn->buffer_waiter);
}

/* Its share of the slab is used up: one of its own buffers has to come back. */
static bool is_over_share(const struct nbd_conn *conn, uint32_t n_bytes)
{
	return conn->n_held_bytes &&
	       conn->n_held_bytes + n_bytes > worker_share(conn->worker, conn->export);
}

struct nbd_part *nbd_part_take(struct nbd_request *r, uint64_t offset, uint64_t length,
			       uint32_t n_bytes)
{
	struct nbd_conn *conn = r->conn;
	struct nbd_part *part;
	uint8_t *buffer = NULL;

	if (list_is_empty(&conn->free_parts) || (n_bytes && is_over_share(conn, n_bytes)))
		return NULL;
	if (n_bytes) {
		buffer = volume_buffer_take(conn->worker->queue, n_bytes);
		if (!buffer) {
			wait_for_buffer(conn);
			return NULL;
		}
	}
	part = list_entry(list_take_first(&conn->free_parts), struct nbd_part, node);
	/* io, out and lock are filled in where they are used, each whole. */
	part->request = r;
	part->buffer = part->payload = buffer;
	part->n_buffer_bytes = n_bytes;
	part->offset = offset;
	part->length = length;
	part->n_filled = 0;
	part->is_rmw = false;
	nbd_part_move(part, PART_TAKEN);
	conn->n_held_bytes += n_bytes;
	r->n_parts++;
	r->n_pending++;
	nbd_request_ref(r);
	return part;
}

void nbd_part_give(struct nbd_part *part)
{
	struct nbd_request *r = part->request;
	struct nbd_conn *conn = r->conn;

	nbd_part_move(part, PART_FREE);
	if (part->buffer)
		volume_buffer_give(conn->worker->queue, part->buffer);
	conn->n_held_bytes -= part->n_buffer_bytes;
	list_remove(&part->node);
	list_add_head(&conn->free_parts, &part->node);
	r->n_parts--;
	if (conn->is_waiting || !list_is_empty(&conn->starved))
		nbd_conn_resume_soon(conn);
	nbd_request_unref(r);
}

void nbd_part_came_back(struct nbd_part *part)
{
	check(part->request->n_pending > 0);
	part->request->n_pending--;
}

void nbd_part_submit(struct nbd_part *part, enum volume_op op, uint64_t offset, uint64_t length,
		     void *buffer, void (*done)(struct volume_io *io, int error))
{
	const struct nbd_request *r = part->request;
	struct volume_io *io = &part->io;

	nbd_part_move(part, op == VOLUME_READ ? PART_READING : PART_WRITING);
	io->op = op;
	io->is_fua = r->flags & NBD_CMD_FLAG_FUA;
	io->may_unmap = !(r->flags & NBD_CMD_FLAG_NO_HOLE);
	io->offset = offset;
	io->length = length;
	io->buffer = buffer;
	io->done = done;
	volume_io_submit(r->conn->worker->queue, io);
}

static bool may_be_with_volume(const struct nbd_part *part)
{
	return part->state == PART_READING || part->state == PART_WRITING;
}

void nbd_io_take_back(struct nbd_conn *conn)
{
	unsigned n = 0;

	for (unsigned i = 0; conn->parts && i < CONN_PARTS; i++)
		if (may_be_with_volume(&conn->parts[i]))
			n += volume_io_cancel(conn->worker->queue, &conn->parts[i].io);
	if (n)
		log_info("nbd %u, %s, has ended: %u I/O that waited to be sent are dropped",
			 conn->id, conn->peer, n);
}

bool nbd_io_has_writes(const struct nbd_conn *conn)
{
	for (unsigned i = 0; conn->requests && i < CONN_REQUESTS; i++) {
		const struct nbd_request *r = &conn->requests[i];

		if (r->n_refs && !r->is_answered && r->type != NBD_CMD_READ)
			return true;
	}
	return false;
}

/* ---- issuing ----------------------------------------------------------------------- */

bool nbd_io_has_more(const struct nbd_request *r)
{
	return r->cursor < r->length || r->must_flush;
}

static bool issue_one(struct nbd_request *r)
{
	if (r->cursor == r->length)
		return nbd_flush_issue_one(r);
	if (r->type == NBD_CMD_READ)
		return nbd_read_issue_one(r);
	if (r->type == NBD_CMD_TRIM)
		return nbd_trim_issue_one(r);
	check(r->type == NBD_CMD_WRITE_ZEROES);
	return nbd_zero_issue_one(r);
}

/* Filling with zeros may take long and much memory: it leaves some to the requests behind it. */
static unsigned max_parts(const struct nbd_request *r)
{
	return r->type == NBD_CMD_WRITE_ZEROES ? CONN_FILL_PARTS : CONN_REQUEST_PARTS;
}

static bool can_issue(const struct nbd_request *r)
{
	if (r->cursor < r->length)
		return r->n_parts < max_parts(r);
	return r->must_flush && !r->n_pending; /* the flush covers the other parts */
}

static void set_starved(struct nbd_request *r, bool is_starved)
{
	if (r->is_starved == is_starved)
		return;
	r->is_starved = is_starved;
	list_remove(&r->node);
	if (is_starved)
		list_add_tail(&r->conn->starved, &r->node);
}

static void finish(struct nbd_request *r)
{
	if (r->is_dropped)
		nbd_reply_end(r);
	else if (r->type == NBD_CMD_READ)
		nbd_read_finish(r);
	else
		nbd_reply_status(r);
}

void nbd_io_issue(struct nbd_request *r)
{
	if (r->conn->state == CONN_CLOSED && nbd_io_has_more(r))
		nbd_request_fail(r, -ESHUTDOWN, r->offset + r->cursor);
	if (r->error) {
		r->cursor = r->length;
		r->must_flush = false;
	}
	while (can_issue(r)) {
		if (!issue_one(r)) {
			set_starved(r, true);
			return;
		}
	}
	set_starved(r, false);
	if (!nbd_io_has_more(r) && !r->n_pending && !r->is_answered)
		finish(r);
}

bool nbd_io_issue_starved(struct nbd_conn *conn)
{
	while (!list_is_empty(&conn->starved)) {
		struct nbd_request *r = list_entry(conn->starved.next, struct nbd_request, node);

		nbd_io_issue(r);
		if (conn->starved.next == &r->node)
			return false;
	}
	return true;
}

void nbd_io_settle(struct nbd_request *r)
{
	if (r->is_answered)
		return;
	if (r->type != NBD_CMD_WRITE)
		nbd_io_issue(r);
	else if (!nbd_io_has_more(r) && !r->n_pending)
		finish(r);
}

void nbd_io_part_done(struct nbd_part *part, int error)
{
	struct nbd_request *r = part->request;

	nbd_part_came_back(part);
	if (error)
		nbd_request_fail(r, error, part->offset);
	nbd_request_ref(r);
	nbd_part_give(part);
	nbd_io_settle(r);
	nbd_request_unref(r);
}
