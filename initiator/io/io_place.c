/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where an I/O is from submit until done. I/O loop only.
 *
 *   submit -> taken -> sent -> done
 *               |       |
 *               |       +--> held, waiting or fencing: its command is over, the I/O is not
 *               +----------> held, waiting, fencing or finished
 *   held, waiting, fencing -> taken -> ...       finished -> done
 *
 * An I/O is in one place at a time: its list node is in the list of that place, and only what moves
 * it touches the list. A move that the table forbids (a held I/O that is sent, say) would have one
 * node in two lists: it stops the process at once, with both names, instead of losing I/O later.
 */
#include "initiator/io/io_place.h"

#include <errno.h>

#include "base/bits.h"
#include "base/clock.h"
#include "initiator/io/io_errors.h"

#define RETRY_DELAY_NS (100 * NSEC_PER_MSEC)
#define TO_A_LIST      (STATE_TO(IO_HELD) | STATE_TO(IO_WAITING) | STATE_TO(IO_FENCING))

const struct state_rule io_place_rules[] = {
	[IO_TAKEN] = {"taken",
		      TO_A_LIST | STATE_TO(IO_SENT) | STATE_TO(IO_FINISHED) | STATE_TO(IO_DONE)},
	[IO_HELD] = {"held", STATE_TO(IO_TAKEN)},
	[IO_WAITING] = {"waiting", STATE_TO(IO_TAKEN)},
	[IO_FENCING] = {"fencing", STATE_TO(IO_TAKEN)},
	[IO_SENT] = {"sent", TO_A_LIST | STATE_TO(IO_FINISHED) | STATE_TO(IO_DONE)},
	[IO_FINISHED] = {"finished", STATE_TO(IO_DONE)},
	[IO_DONE] = {"done", 0},
};

/* ---- held ---- */

/* For the status, which control reads: a plain store of this one writer. */
static void publish_held(struct volume_queue *queue)
{
	atomic_store_explicit(&queue->seen_held, queue->n_held, memory_order_relaxed);
}

void io_hold_first(struct volume_queue *queue, struct volume_io *io)
{
	io_move(io, IO_HELD);
	list_add_head(&queue->held, &io->node);
	queue->n_held++;
	publish_held(queue);
}

void io_hold_last(struct volume_queue *queue, struct volume_io *io)
{
	io_move(io, IO_HELD);
	list_add_tail(&queue->held, &io->node);
	queue->n_held++;
	publish_held(queue);
}

struct volume_io *io_oldest_held(const struct volume_queue *queue)
{
	return queue->n_held ? list_entry(queue->held.next, struct volume_io, node) : NULL;
}

/* ---- waiting ---- */

void io_start_retry_timer(struct volume_queue *queue)
{
	if (!loop_timer_is_running(&queue->retry_timer))
		loop_timer_start(queue->loop, &queue->retry_timer, RETRY_DELAY_NS);
}

void io_wait(struct volume_queue *queue, struct volume_io *io)
{
	io_move(io, IO_WAITING);
	list_add_tail(&queue->waiting, &io->node);
	io_start_retry_timer(queue);
}

void io_hold_waiting(struct volume_queue *queue)
{
	while (!list_is_empty(&queue->waiting)) {
		struct volume_io *io = list_entry(queue->waiting.prev, struct volume_io, node);

		io_take(queue, io);
		io_hold_first(queue, io);
	}
}

void io_take(struct volume_queue *queue, struct volume_io *io)
{
	if (io->place == IO_HELD) {
		queue->n_held--;
		publish_held(queue);
	}
	io_move(io, IO_TAKEN);
	list_remove(&io->node);
}

/* ---- ends ---- */

void io_finish_later(struct volume_queue *queue, struct volume_io *io, int error)
{
	io->error = error;
	io_move(io, IO_FINISHED);
	list_add_tail(&queue->finished, &io->node);
	loop_defer(queue->loop, &queue->finish_call);
}

void io_on_finish(struct loop_call *call)
{
	struct volume_queue *queue = container_of(call, struct volume_queue, finish_call);
	struct list now, *node;

	list_init(&now);
	list_splice_tail(&now, &queue->finished);
	while ((node = list_take_first(&now))) {
		struct volume_io *io = list_entry(node, struct volume_io, node);

		io_end(io, io->error);
	}
}

COLD void io_give_up(struct volume_queue *queue, struct volume_io *io)
{
	volume_io_errors_add(queue, io, NVME_HOST_PATH_ERROR, NULL);
	io_finish_later(queue, io, -EIO);
}

COLD void io_end_unknown(struct volume_queue *queue, struct volume_io *io)
{
	volume_io_errors_add(queue, io, NVME_HOST_PATH_ERROR,
			     "the connection was lost, and the target may have done it or not");
	io_finish_later(queue, io, -ECONNRESET);
}

static void give_up_list(struct volume_queue *queue, struct list *list)
{
	while (!list_is_empty(list)) {
		struct volume_io *io = list_entry(list->next, struct volume_io, node);

		io_take(queue, io);
		io_give_up(queue, io);
	}
}

void io_give_up_all(struct volume_queue *queue)
{
	give_up_list(queue, &queue->held);
	give_up_list(queue, &queue->waiting);
}
