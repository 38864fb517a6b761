/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Execution: a request becomes parts, each one I/O of the volume (nbd_part.c). The command's row in
 * the table of nbd_command.c makes them; here is when.
 *
 * nbd_io_issue makes parts from the request's cursor on until it is exhausted, until the request
 * has max_parts of them (the next is made when one comes back), or until there is no memory. In
 * that last case the request is starved: it waits in conn.starved, and the connection reads no
 * further requests, until the volume has a buffer again or one of its own came back.
 *
 * The first error of a request stops the making of further parts; parts on their way finish.
 *
 * A client that is gone has no claim that its I/O is done, and another may have taken its place:
 * what is not on the wire yet is taken back (nbd_io_take_back), and what has no I/O yet makes none.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/log.h"
#include "nbd_bridge/io/nbd_io.h"
#include "nbd_bridge/io/nbd_reply.h"

static bool may_be_with_volume(const struct nbd_part *part)
{
	return part->state == PART_READING || part->state == PART_WRITING;
}

void nbd_io_take_back(struct nbd_conn *conn)
{
	unsigned n = 0;

	for (unsigned i = 0; conn->parts && i < CONN_PARTS; i++)
		if (may_be_with_volume(&conn->parts[i]))
			n += volume_io_cancel(conn->thread->queue, &conn->parts[i].io);
	if (n)
		log_info("nbd %u, %s, has ended: %u I/O that waited to be sent are dropped",
			 conn->id, conn->peer, n);
}

bool nbd_io_has_writes(const struct nbd_conn *conn)
{
	for (unsigned i = 0; conn->requests && i < CONN_REQUESTS; i++) {
		const struct nbd_request *r = &conn->requests[i];

		if (r->state != NBD_REQUEST_FREE && r->state != NBD_REQUEST_ANSWERED &&
		    r->type != NBD_CMD_READ && r->type != NBD_CMD_BLOCK_STATUS)
			return true;
	}
	return false;
}

static bool can_issue(const struct nbd_request *r)
{
	if (r->cursor < r->length)
		return r->n_parts < r->command->max_parts;
	return r->must_flush && !r->n_pending; /* the flush covers the other parts */
}

static void starve(struct nbd_request *r)
{
	if (r->state == NBD_REQUEST_STARVED)
		return;
	nbd_request_move(r, NBD_REQUEST_STARVED);
	list_remove(&r->node);
	list_add_tail(&r->conn->starved, &r->node);
}

static NOINLINE void leave_starved(struct nbd_request *r)
{
	nbd_request_move(r, NBD_REQUEST_RUNNING);
	list_remove(&r->node);
}

static void finish(struct nbd_request *r)
{
	if (r->state == NBD_REQUEST_DROPPED)
		nbd_reply_end(r);
	else
		r->command->finish(r);
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
		if (!r->command->issue_one(r)) {
			starve(r);
			return;
		}
	}
	if (r->state == NBD_REQUEST_STARVED)
		leave_starved(r);
	if (!nbd_io_has_more(r) && !r->n_pending && r->state != NBD_REQUEST_ANSWERED)
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
	if (r->state == NBD_REQUEST_ANSWERED)
		return;
	if (r->command->issue_one)
		nbd_io_issue(r);
	else if (!nbd_io_has_more(r) && !r->n_pending)
		finish(r);
}

void nbd_io_part_over(struct nbd_part *part)
{
	struct nbd_request *r = nbd_part_give(part);

	nbd_io_settle(r);
	nbd_request_unref(r);
}

void nbd_io_part_done(struct nbd_part *part, int error)
{
	nbd_part_came_back(part);
	if (error)
		nbd_request_fail(part->request, error, part->offset);
	nbd_io_part_over(part);
}

void nbd_io_drop(struct nbd_request *r)
{
	struct conn_input *input = &r->conn->input;
	struct nbd_part *part = input->filling;

	check(input->current == r);
	input->current = NULL;
	input->filling = NULL;
	nbd_request_move(r, NBD_REQUEST_DROPPED);
	r->cursor = r->length;
	if (part)
		nbd_io_part_done(part, -ESHUTDOWN);
	else
		nbd_io_settle(r);
}
