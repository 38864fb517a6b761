/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes that wait for proof. I/O loop only.
 *
 * A write that was in flight when its association was lost may still be on its way to the medium.
 * Sent again and acknowledged, its old copy could land after a newer write to the same blocks. So
 * it keeps its buffer and its range, and waits here until its association is proven to be over. A
 * new change that overlaps with one that waits comes behind it; all others go on, and so do reads.
 *
 * A cancelled change that was sent is not done before the proof either: its user would take the
 * range for free. Nor is a Compare and Write, whose user will look at what is there now. It is not
 * sent again: if its first copy has written, the second would find something else than expected.
 * Only QUEUE_FAIL ends a change without proof. Control closes the volume to all changes then, until
 * the proof is there.
 */
#include <errno.h>

#include "base/check.h"
#include "initiator/io/io.h"
#include "initiator/io/io_fencing.h"
#include "initiator/io/io_place.h"

static void publish(struct volume_queue *queue)
{
	atomic_store_explicit(&queue->fencing.seen, queue->fencing.n, memory_order_relaxed);
}

static void enter(struct volume_queue *queue, struct volume_io *io, uint32_t serial)
{
	io_move(io, IO_FENCING);
	io->lost_in = serial;
	queue->fencing.n++;
	publish(queue);
}

static void leave(struct volume_queue *queue, struct volume_io *io)
{
	io_move(io, IO_TAKEN);
	list_remove(&io->node);
	queue->fencing.n--;
	publish(queue);
}

static bool do_overlap(const struct volume_io *a, const struct volume_io *b)
{
	return a->offset < b->offset + b->length && b->offset < a->offset + a->length;
}

bool io_fencing_holds(const struct volume_queue *queue, const struct volume_io *io)
{
	if (!(queue->fencing.n || queue->fencing.is_closed) || !io_is_change(io))
		return false;
	if (queue->fencing.is_closed)
		return true;
	list_for_each (node, &queue->fencing.list)
		if (do_overlap(list_entry(node, struct volume_io, node), io))
			return true;
	return false;
}

void io_fencing_add(struct volume_queue *queue, struct volume_io *io)
{
	enter(queue, io, 0);
	list_add_tail(&queue->fencing.list, &io->node);
}

bool io_fencing_take(struct volume_queue *queue, struct volume_io *io, uint32_t serial)
{
	if (!io_is_change(io) || !unproven_has(queue->fencing.unproven, serial))
		return false;
	enter(queue, io, serial);
	list_add_head(&queue->fencing.list, &io->node);
	return true;
}

bool io_fencing_remove(struct volume_queue *queue, struct volume_io *io)
{
	if (io->lost_in)
		return false;
	leave(queue, io);
	return true;
}

static bool is_lost_for_good(const struct volume_io *io)
{
	return io->op == VOLUME_COMPARE_AND_WRITE && io->lost_in;
}

static void end(struct volume_queue *queue, struct volume_io *io)
{
	if (io->is_cancelled)
		io_finish_later(queue, io, -ECANCELED);
	else if (is_lost_for_good(io))
		io_end_unknown(queue, io);
	else
		io_give_up(queue, io);
}

void io_fencing_fail(struct volume_queue *queue)
{
	list_for_each_safe (node, &queue->fencing.list) {
		struct volume_io *io = list_entry(node, struct volume_io, node);

		leave(queue, io);
		end(queue, io);
	}
}

/* One that is not sent before another: the other is older, waits on, and overlaps. */
static bool is_behind(const struct volume_queue *queue, const struct volume_io *io)
{
	list_for_each (node, &queue->fencing.list) {
		const struct volume_io *other = list_entry(node, struct volume_io, node);

		if (other == io)
			return false;
		if (do_overlap(other, io))
			return true;
	}
	return false;
}

/* It is not sent (again). */
static bool ends_here(const struct volume_io *io)
{
	return io->is_cancelled || is_lost_for_good(io);
}

static bool may_leave(const struct volume_queue *queue, const struct volume_io *io)
{
	if (unproven_has(queue->fencing.unproven, io->lost_in))
		return false;
	return ends_here(io) || (!queue->fencing.is_closed && !is_behind(queue, io));
}

/* In order, and then to the head of the held ones: so they keep their order. */
static void release(struct volume_queue *queue)
{
	struct list free_now, *node;

	list_init(&free_now);
	list_for_each_safe (at, &queue->fencing.list) {
		struct volume_io *io = list_entry(at, struct volume_io, node);

		if (!may_leave(queue, io))
			continue;
		leave(queue, io);
		if (ends_here(io))
			end(queue, io);
		else
			list_add_tail(&free_now, &io->node);
	}
	while (!list_is_empty(&free_now)) {
		node = free_now.prev;
		list_remove(node);
		io_hold_first(queue, list_entry(node, struct volume_io, node));
	}
}

void io_fencing_look(struct volume_queue *queue)
{
	queue->fencing.is_closed = atomic_load(&queue->fencing.unproven->is_closed);
	if (!queue->fencing.n)
		return;
	io_before_held(queue);
	release(queue);
	io_pump(queue);
}
