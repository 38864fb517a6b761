/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of an I/O down, and back: the caller's thread. Nothing is allocated, and no lock is taken
 * but the queue's turn.
 */
#include <errno.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "library/handle.h"
#include "library/memory_handle.h"
#include "library/process.h"

_Static_assert((unsigned)RBLK_EXTENTS_MAX == (unsigned)VOLUME_RUNS_MAX, "each run is an extent");

static const uint8_t ops[] = {
	[RBLK_READ] = VOLUME_READ,    [RBLK_WRITE] = VOLUME_WRITE,
	[RBLK_FLUSH] = VOLUME_FLUSH,  [RBLK_WRITE_ZEROES] = VOLUME_WRITE_ZEROES,
	[RBLK_DISCARD] = VOLUME_TRIM, [RBLK_COMPARE_AND_WRITE] = VOLUME_COMPARE_AND_WRITE,
};

/* ---- down ---- */

static NOINLINE int check_compare(const struct rblk_volume *volume, const struct rblk_io *io)
{
	uint32_t max = atomic_load(&volume->max_compare_bytes);

	if (!max)
		return -EOPNOTSUPP;
	return io->length <= max ? 0 : -EINVAL;
}

static int check_range(const struct rblk_volume *volume, const struct rblk_io *io)
{
	uint64_t size = atomic_load_explicit(&volume->size_bytes, memory_order_relaxed);

	return (io->offset | io->length) & volume->block_mask || io->length > size ||
			       io->offset > size - io->length
		       ? -EINVAL
		       : 0;
}

static int check_io(const struct rblk_volume *volume, const struct rblk_io *io)
{
	if (io->op == RBLK_FLUSH)
		return 0;
	if (io->op >= sizeof(ops) || check_range(volume, io) < 0)
		return -EINVAL;
	return io->op == RBLK_COMPARE_AND_WRITE ? check_compare(volume, io) : 0;
}

static size_t buffer_bytes(const struct rblk_io *io)
{
	switch (io->op) {
	case RBLK_READ:
	case RBLK_WRITE:
		return io->length;
	case RBLK_COMPARE_AND_WRITE:
		return 2 * io->length;
	default:
		return 0;
	}
}

/* The buffer lies in what the program has named. Elsewhere the device would stop the queue pair,
 * each time that the I/O is sent again. */
static int check_memory(const struct rblk_volume *volume, const struct rblk_io *io, size_t n_bytes)
{
	const struct volume_memory *memory = &io->memory->memory;
	uintptr_t at = (uintptr_t)io->buffer - (uintptr_t)memory->base; /* below: huge */

	if (io->memory->volume != volume)
		return -EINVAL;
	return n_bytes <= memory->n_bytes && at <= memory->n_bytes - n_bytes ? 0 : -EINVAL;
}

/* Has ended; rblk_poll reports it. The queue is taken. */
static inline void end(struct io_part *part, int error)
{
	struct rblk_queue *queue = part->queue;
	struct rblk_io *io = io_of_part(part);

	io->result = error;
	part->next = NULL;
	*queue->ended_end = io;
	queue->ended_end = &part->next;
}

static void on_done(struct volume_io *volume_io, int error)
{
	end(container_of(volume_io, struct io_part, io), error);
}

static int prepare(struct rblk_queue *queue, struct rblk_io *io, struct io_part *part)
{
	size_t n_bytes = buffer_bytes(io);

	part->queue = queue;
	part->held = NULL;
	part->io.op = ops[io->op];
	part->io.is_fua = io->flags & RBLK_FUA;
	part->io.may_unmap = io->flags & RBLK_MAY_UNMAP;
	part->io.offset = io->offset;
	part->io.length = io->op == RBLK_FLUSH ? 0 : io->length;
	part->io.buffer = io->buffer;
	part->io.memory = io->memory ? &io->memory->memory : NULL;
	part->io.done = on_done;
	if (!n_bytes)
		return 0;
	return io->memory ? check_memory(queue->volume, io, n_bytes)
			  : memory_attach(queue->volume, io->buffer, n_bytes, part);
}

static void on_extents(struct volume_extents *answer)
{
	struct io_part *part = container_of(answer, struct io_part, extents);
	struct rblk_extents *extents = io_of_part(part)->buffer;

	*extents = (struct rblk_extents){.n = answer->n};
	for (unsigned i = 0; i < answer->n; i++)
		extents->of[i] = (struct rblk_extent){.length = answer->runs[i].length,
						      .is_hole = answer->runs[i].is_hole};
	end(part, 0);
}

static NOINLINE int submit_extents(struct rblk_queue *queue, struct rblk_io *io)
{
	struct io_part *part = io_part_of(io);

	if (!io->buffer || !io->length || check_range(queue->volume, io) < 0)
		return -EINVAL;
	part->queue = queue;
	part->held = NULL;
	part->extents = (struct volume_extents){
		.offset = io->offset, .length = io->length, .done = on_extents};
	queue_enter(queue);
	volume_extents_ask(queue->queue, &part->extents);
	queue_leave(queue);
	queue->n_outstanding++;
	return 0;
}

int rblk_submit(struct rblk_queue *queue, struct rblk_io *io)
{
	struct io_part *part = io_part_of(io);
	int r;

	if (process_is_child())
		return -ECHILD;
	if (UNLIKELY(io->op == RBLK_EXTENTS))
		return submit_extents(queue, io);
	r = check_io(queue->volume, io);
	if (r == 0)
		r = prepare(queue, io, part);
	if (r < 0)
		return r;
	queue_enter(queue);
	if (!queue->has_now)
		queue->loop.now_ns = clock_ns();
	volume_io_submit(queue->queue, &part->io);
	queue_leave(queue);
	queue->has_now = queue->has_unsent = true;
	queue->n_outstanding++;
	return 0;
}

static void send_now(struct rblk_queue *queue)
{
	queue_enter(queue);
	loop_flush(&queue->loop);
	queue_leave(queue);
	queue->has_unsent = false;
}

int rblk_send(struct rblk_queue *queue)
{
	if (process_is_child())
		return -ECHILD;
	if (queue->has_unsent)
		send_now(queue);
	queue->has_now = false;
	return 0;
}

/* ---- back ---- */

static void take_ended(struct rblk_queue *queue)
{
	queue->reported = queue->ended;
	queue->ended = NULL;
	queue->ended_end = &queue->ended;
}

static int report(struct rblk_queue *queue, struct rblk_io **ios, unsigned n)
{
	unsigned n_returned = 0, n_reported = 0;
	struct rblk_io *io;

	while ((io = queue->reported) && (io->done || n_returned < n)) {
		struct io_part *part = io_part_of(io);

		queue->reported = part->next;
		queue->n_outstanding--;
		n_reported++;
		if (part->held)
			memory_detach(queue->volume, part);
		if (io->done)
			io->done(io);
		else
			ios[n_returned++] = io;
	}
	if (queue->has_unsent)
		send_now(queue); /* what done has submitted */
	queue->has_now = false;
	return (int)n_reported;
}

int rblk_poll(struct rblk_queue *queue, struct rblk_io **ios, unsigned n)
{
	if (process_is_child())
		return -ECHILD;
	queue_enter(queue);
	queue->is_armed = false;
	loop_poll(&queue->loop);
	if (!queue->reported)
		take_ended(queue);
	queue_leave(queue);
	queue->has_now = true;
	queue->has_unsent = false; /* a pass ends with sending */
	return report(queue, ios, n);
}

static uint64_t left_ns(uint64_t until_ns)
{
	uint64_t now = clock_ns();

	return until_ns == UINT64_MAX ? UINT64_MAX : until_ns > now ? until_ns - now : 0;
}

/* Turns of the loop, which poll for a while and then sleep, until something has ended. */
static void turn_until(struct rblk_queue *queue, uint64_t until_ns)
{
	uint64_t left;

	while (!queue->ended && (left = left_ns(until_ns)))
		loop_turn(&queue->loop, left);
}

int rblk_wait(struct rblk_queue *queue, struct rblk_io **ios, unsigned n, int timeout_ms)
{
	uint64_t until = timeout_ms < 0 ? UINT64_MAX
					: clock_ns() + (uint64_t)timeout_ms * NSEC_PER_MSEC;
	int n_reported = rblk_poll(queue, ios, n);

	if (n_reported || queue->reported)
		return n_reported;
	queue_enter(queue);
	turn_until(queue, until);
	take_ended(queue);
	queue_leave(queue);
	queue->has_now = true;
	return report(queue, ios, n);
}

int rblk_run(struct rblk_queue *queue, struct rblk_io *io)
{
	struct rblk_io *ended = NULL;
	int r;

	if (process_is_child())
		return -ECHILD;
	if (queue->n_outstanding || io->done)
		return -EBUSY;
	r = rblk_submit(queue, io);
	while (r == 0 && !ended)
		rblk_wait(queue, &ended, 1, -1);
	return r < 0 ? r : io->result;
}

int rblk_queue_depth(const struct rblk_queue *queue)
{
	return (int)queue->n_outstanding;
}
