/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths that leave. The volume says when one may go (volume_path_go); the keeper asks it at each
 * tick. A path may need a Flush first, which a queue of the program sends: a Flush is an errand,
 * a message to the queue's loop and one back. Control has at most one errand for a queue.
 *
 * A queue that is closed meanwhile ends its errand first. Its Flush is cancelled, so that this does
 * not wait for a target that is away, and the next queue gets the errand.
 */
#include <errno.h>

#include "base/clock.h"
#include "library/handle.h"
#include "library/process.h"

/* After a Flush that failed. */
#define RETRY_NS (1 * NSEC_PER_SEC)

/* ---- the queue's loop ---- */

static void end_errand(struct errand *errand, int error)
{
	errand->error = error;
	loop_send(process_loop(), &errand->back);
}

static void on_flush_done(struct volume_io *io, int error)
{
	struct errand *errand = container_of(io, struct errand, flush);

	errand->is_flushing = false;
	end_errand(errand, error);
}

static void on_there(struct loop_msg *msg)
{
	struct errand *errand = container_of(msg, struct errand, there);
	struct rblk_queue *queue = container_of(errand, struct rblk_queue, errand);

	if (errand->is_closing) {
		end_errand(errand, -ECANCELED);
		return;
	}
	errand->is_flushing = true;
	errand->flush = (struct volume_io){.op = VOLUME_FLUSH, .done = on_flush_done};
	volume_io_submit(queue->queue, &errand->flush);
}

void errand_cancel(struct rblk_queue *queue)
{
	queue->errand.is_closing = true;
	if (queue->errand.is_flushing)
		volume_io_cancel(queue->queue, &queue->errand.flush);
}

/* ---- control ---- */

static void on_back(struct loop_msg *msg)
{
	struct errand *errand = container_of(msg, struct errand, back);

	errand->is_out = false;
	if (errand->error)
		errand->next_ns = clock_ns() + RETRY_NS;
	if (errand->remove)
		errand->remove(container_of(errand, struct rblk_queue, errand));
}

static void send_flush(struct rblk_volume *volume)
{
	struct rblk_queue *queue;

	if (list_is_empty(&volume->queues))
		return;
	queue = list_entry(volume->queues.next, struct rblk_queue, node);
	if (queue->errand.is_out || clock_ns() < queue->errand.next_ns)
		return;
	queue->errand.is_out = true;
	loop_send(&queue->loop, &queue->errand.there);
}

void errand_init(struct errand *errand)
{
	errand->there.run = on_there;
	errand->back.run = on_back;
}

bool errand_delays(struct errand *errand, void (*remove)(struct rblk_queue *queue))
{
	if (errand->is_out)
		errand->remove = remove;
	return errand->is_out;
}

void departure_look(struct rblk_volume *volume, const struct volume_status *status)
{
	for (unsigned i = 0; i < status->n_paths && status->state != VOLUME_CLOSING; i++)
		if (status->paths[i].state == VOLUME_PATH_LEAVING &&
		    volume_path_go(volume->volume, &status->paths[i].address) ==
			    DEPARTURE_WANTS_FLUSH)
			send_flush(volume);
}
