/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See fuzz_volume.h. This file checks what the bridge promises its volume: whole blocks inside the
 * volume, of at most the transfer's size, from and to memory inside one taken buffer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "tests/fuzz/fuzz_volume.h"

struct volume_queue {
	struct loop *loop; /* borrowed */
	struct list submitted, waiters;
	struct loop_call run;
	unsigned n_taken;
	int error;
	unsigned every, n_done;
	uint8_t *buffers[FUZZ_BUFFERS]; /* while taken: a sanitizer sees their ends */
	uint8_t bytes[FUZZ_VOLUME_BYTES];
};

static struct volume_queue volume;

static bool is_in_buffer(const uint8_t *at, uint64_t n)
{
	for (unsigned i = 0; i < FUZZ_BUFFERS; i++)
		if (volume.buffers[i] && at >= volume.buffers[i] &&
		    at + n <= volume.buffers[i] + FUZZ_IO_BYTES)
			return true;
	return false;
}

static void execute(struct volume_io *io)
{
	uint8_t *at = volume.bytes + io->offset;

	if (io->op == VOLUME_FLUSH)
		return;
	check(io->length && io->offset % 512 == 0 && io->length % 512 == 0);
	check(io->offset <= FUZZ_VOLUME_BYTES && io->length <= FUZZ_VOLUME_BYTES - io->offset);
	if (io->op == VOLUME_READ || io->op == VOLUME_WRITE)
		check(io->length <= FUZZ_IO_BYTES && is_in_buffer(io->buffer, io->length));
	if (io->op == VOLUME_READ)
		memcpy(io->buffer, at, io->length);
	else if (io->op == VOLUME_WRITE)
		memcpy(at, io->buffer, io->length);
	else
		memset(at, 0, io->length);
}

static void run(struct loop_call *call)
{
	struct list now, *node;

	list_init(&now);
	list_splice_tail(&now, &volume.submitted);
	while ((node = list_take_first(&now))) {
		struct volume_io *io = list_entry(node, struct volume_io, node);

		if (volume.error && ++volume.n_done % volume.every == 0) {
			io->done(io, -volume.error);
			continue;
		}
		execute(io);
		io->done(io, 0);
	}
}

struct volume_queue *fuzz_volume_start(struct loop *loop)
{
	volume.loop = loop;
	volume.run.run = run;
	list_init(&volume.submitted);
	list_init(&volume.waiters);
	return &volume;
}

void fuzz_volume_fail(int error, unsigned every)
{
	volume.error = error;
	volume.every = every;
	volume.n_done = 0;
}

void fuzz_volume_check_idle(void)
{
	check(list_is_empty(&volume.submitted) && list_is_empty(&volume.waiters));
	check(volume.n_taken == 0);
	memset(volume.bytes, 0, sizeof(volume.bytes)); /* each input starts from zeroes */
}

/* ---- volume_io.h ---- */

void volume_io_submit(struct volume_queue *queue, struct volume_io *io)
{
	list_add_tail(&queue->submitted, &io->node);
	loop_defer(queue->loop, &queue->run);
}

/* Everything submitted is on the wire at once, so none can be cancelled. */
bool volume_io_cancel(struct volume_queue *queue, struct volume_io *io)
{
	return false;
}

void volume_io_set_before_held(struct volume_queue *queue, void (*call)(void *context),
			       void *context)
{
}

void *volume_buffer_take(struct volume_queue *queue, size_t n_bytes)
{
	check(n_bytes > 0 && n_bytes <= FUZZ_IO_BYTES);
	for (unsigned i = 0; i < FUZZ_BUFFERS; i++) {
		if (queue->buffers[i])
			continue;
		queue->buffers[i] = aligned_alloc(4096, FUZZ_IO_BYTES);
		check(queue->buffers[i]);
		queue->n_taken++;
		return queue->buffers[i];
	}
	return NULL;
}

void volume_buffer_give(struct volume_queue *queue, void *buffer)
{
	struct list *waiter = list_take_first(&queue->waiters);
	unsigned i = 0;

	while (i < FUZZ_BUFFERS && queue->buffers[i] != buffer)
		i++;
	check(i < FUZZ_BUFFERS);
	free(buffer);
	queue->buffers[i] = NULL;
	queue->n_taken--;
	if (waiter)
		loop_defer(queue->loop, list_entry(waiter, struct loop_call, node));
}

void volume_buffer_wait(struct volume_queue *queue, struct loop_call *waiter)
{
	list_add_tail(&queue->waiters, &waiter->node);
}

void volume_buffer_wait_cancel(struct volume_queue *queue, struct loop_call *waiter)
{
	if (waiter->is_queued)
		loop_call_cancel(waiter);
	else
		list_remove(&waiter->node);
}

static void on_extents(struct loop_msg *msg)
{
	struct volume_extents *ask = container_of(msg, struct volume_extents, msg);

	ask->done(ask);
}

/* The first block of each 8 KiB is a hole. */
void volume_extents_ask(struct volume_queue *queue, struct volume_extents *ask)
{
	bool is_hole = !(ask->offset & 4096);

	check(ask->length && ask->offset % 512 == 0 && ask->length % 512 == 0);
	check(ask->offset <= FUZZ_VOLUME_BYTES && ask->length <= FUZZ_VOLUME_BYTES - ask->offset);
	ask->n = ask->length > 4096 ? 2 : 1;
	ask->runs[0] = (struct volume_run){MIN(ask->length, (uint64_t)4096), is_hole};
	ask->runs[1] = (struct volume_run){ask->length - ask->runs[0].length, !is_hole};
	ask->msg.run = on_extents;
	loop_send(queue->loop, &ask->msg);
}

/* There is one queue only: worker.c cannot add more. */
int volume_queue_add(struct volume *of, struct loop *io_loop, struct volume_queue **ret_queue)
{
	return -EUSERS;
}
