/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts and their memory.
 *
 *   TAKEN -> FILLING -> LOCKING -> WRITING -> FREE      a write; FILLING: its payload is received
 *                          |          ^
 *                          +-> READING                  read-modify-write of one block
 *   TAKEN -> READING -> SENDING -> FREE                 a read, sent as it comes
 *               |          ^
 *               +-> READ --+                            a read that waits for the parts before it
 *   TAKEN -> LOCKING -> WRITING -> FREE                 zeroes, trim
 *   TAKEN -> WRITING -> FREE                            flush
 *
 * A part takes all it needs at once and holds nothing while it waits, so parts cannot wait for each
 * other's memory. A connection may hold its share of the slab (nbd_conn_share_out); at that limit
 * one of its own buffers must come back, below it the connection waits in the volume's FIFO for a
 * buffer. Meanwhile a timer looks for parts that wait for their clients (nbd_reclaim.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/states.h"
#include "nbd_bridge/io/nbd_part.h"

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

static void on_buffer_free(struct loop_call *call)
{
	struct nbd_conn *conn = container_of(call, struct nbd_conn, buffer_waiter);

	conn->is_waiting_for_buffer = false;
	nbd_conn_resume_soon(conn);
}

void nbd_part_stop_waiting(struct nbd_conn *conn)
{
	if (!conn->is_waiting_for_buffer)
		return;
	conn->is_waiting_for_buffer = false;
	volume_buffer_wait_cancel(conn->thread->queue, &conn->buffer_waiter);
}

static void wait_for_buffer(struct nbd_conn *conn)
{
	struct nbd_thread *thread = conn->thread;

	if (conn->is_waiting_for_buffer)
		return;
	conn->is_waiting_for_buffer = true;
	conn->buffer_waiter.run = on_buffer_free;
	volume_buffer_wait(thread->queue, &conn->buffer_waiter);
	if (!loop_timer_is_running(&thread->reclaim))
		loop_timer_start(&thread->loop, &thread->reclaim, NBD_RECLAIM_NS);
}

/* Its share of the slab is used up: one of its own buffers has to come back. */
static bool is_over_share(const struct nbd_conn *conn, uint32_t n_bytes)
{
	uint64_t n_held = conn->figures.n_held_bytes;

	return n_held && n_held + n_bytes > conn->thread->share_bytes;
}

struct nbd_part *nbd_part_take(struct nbd_request *r, uint64_t offset, uint64_t length,
			       uint32_t n_bytes)
{
	struct nbd_conn *conn = r->conn;
	struct nbd_part *part;
	uint8_t *buffer = NULL;

	if (!conn->free_parts || (n_bytes && is_over_share(conn, n_bytes)))
		return NULL;
	if (n_bytes) {
		buffer = volume_buffer_take(conn->thread->queue, n_bytes);
		if (!buffer) {
			wait_for_buffer(conn);
			return NULL;
		}
	}
	part = conn->free_parts;
	conn->free_parts = part->next_free;
	/* io, out and lock are filled in where they are used, each whole. */
	part->request = r;
	part->buffer = part->payload = buffer;
	part->n_buffer_bytes = n_bytes;
	part->offset = offset;
	part->length = length;
	part->n_filled = 0;
	part->is_rmw = part->was_seen = false;
	nbd_part_move(part, PART_TAKEN);
	counter_add(&conn->figures.n_held_bytes, n_bytes);
	r->n_parts++;
	r->n_pending++;
	nbd_request_ref(r);
	return part;
}

static NOINLINE void drop_copy(struct nbd_part *part)
{
	free(part->copy);
	part->copy = NULL;
	counter_add(&part->request->conn->figures.n_copied_bytes, -(uint64_t)part->n_buffer_bytes);
}

bool nbd_part_copy_out(struct nbd_part *part)
{
	struct nbd_conn *conn = part->request->conn;
	uint8_t *copy = malloc(part->length);

	check(part->buffer && (part->state == PART_FILLING || part->state == PART_SENDING));
	if (!copy)
		return false;
	memcpy(copy, part->payload, part->state == PART_FILLING ? part->n_filled : part->length);
	volume_buffer_give(conn->thread->queue, part->buffer);
	part->buffer = NULL;
	part->copy = part->payload = copy;
	part->out.payload = copy; /* of a part that is being sent */
	counter_add(&conn->figures.n_copied_bytes, part->n_buffer_bytes);
	return true;
}

bool nbd_part_copy_in(struct nbd_part *part)
{
	struct nbd_conn *conn = part->request->conn;
	uint8_t *buffer = volume_buffer_take(conn->thread->queue, part->n_buffer_bytes);

	check(part->state == PART_FILLING && part->n_filled == part->length);
	if (!buffer) {
		wait_for_buffer(conn);
		return false;
	}
	memcpy(buffer, part->copy, part->length);
	part->buffer = part->payload = buffer;
	drop_copy(part);
	return true;
}

struct nbd_request *nbd_part_give(struct nbd_part *part)
{
	struct nbd_request *r = part->request;
	struct nbd_conn *conn = r->conn;

	nbd_part_move(part, PART_FREE);
	if (part->buffer)
		volume_buffer_give(conn->thread->queue, part->buffer);
	if (UNLIKELY(part->copy != NULL))
		drop_copy(part);
	counter_add(&conn->figures.n_held_bytes, -(uint64_t)part->n_buffer_bytes);
	if (!list_is_empty(&part->node)) /* of an ordered read: few are */
		list_remove(&part->node);
	part->next_free = conn->free_parts;
	conn->free_parts = part;
	r->n_parts--;
	if (nbd_conn_is_waiting(conn) || !list_is_empty(&conn->starved))
		nbd_conn_resume_soon(conn);
	return r;
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
	volume_io_submit(r->conn->thread->queue, io);
}
