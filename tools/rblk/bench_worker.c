/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load: on each queue depth I/Os, each submitted again as soon as it is done, until the worker
 * stops. Each has a buffer of its own, taken once. Thread: the worker's, except where
 * bench_worker.h names control.
 *
 * This is a closed loop: an I/O that is slow delays the next one of its slot only, so the result is
 * the rate at a depth, not the latency at a rate.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/counter.h"
#include "tools/rblk/bench_worker.h"

/* Aligned to the size of an I/O, so that no I/O crosses more stripes or pages than it must. */
static uint64_t next_offset(struct bench_queue *queue)
{
	const struct bench_load *load = queue->worker->load;
	uint64_t n_blocks = load->size_bytes / load->block_bytes;

	if (!load->is_random)
		return queue->next++ % n_blocks * load->block_bytes;
	/* xorshift64: cheap, and good enough to spread accesses */
	queue->random ^= queue->random << 13;
	queue->random ^= queue->random >> 7;
	queue->random ^= queue->random << 17;
	return queue->random % n_blocks * load->block_bytes;
}

/* The op of a queue never changes; offset and time do. */
static void start_io(struct bench_io *b)
{
	struct bench_queue *queue = b->queue;
	const struct bench_load *load = queue->worker->load;

	b->io.op = load->is_write ? VOLUME_WRITE : VOLUME_READ;
	b->io.offset = next_offset(queue);
	b->io.length = load->block_bytes;
	b->started_ns = clock_ns();
	queue->n_in_flight++;
	volume_io_submit(queue->volume, &b->io);
}

/* The time stamp is taken before the next I/O is built: that work belongs to the next one. */
static void on_done(struct volume_io *io, int error)
{
	struct bench_io *b = container_of(io, struct bench_io, io);
	struct bench_queue *queue = b->queue;
	struct bench_worker *worker = queue->worker;

	queue->n_in_flight--;
	counter_add(&queue->n_done, 1);
	if (error)
		worker->n_errors++;
	else
		histogram_add(&worker->latency, clock_ns() - b->started_ns);
	if (!worker->must_stop) {
		start_io(b);
		return;
	}
	volume_buffer_give(queue->volume, io->buffer);
	if (!queue->n_in_flight && --worker->n_running == 0)
		loop_send(worker->control, &worker->stopped);
}

/* Buffers are written once, so that no page of zeros is shared behind them. */
static void begin_queue(struct bench_queue *queue)
{
	const struct bench_load *load = queue->worker->load;

	for (unsigned i = 0; i < load->depth; i++) {
		struct bench_io *b = &queue->ios[i];

		b->queue = queue;
		b->io.done = on_done;
		b->io.buffer = volume_buffer_take(queue->volume, load->block_bytes);
		check(b->io.buffer); /* the slab was made for twice as many */
		memset(b->io.buffer, (int)i, load->block_bytes);
		start_io(b);
	}
}

static void begin(struct loop_msg *msg)
{
	struct bench_worker *worker = container_of(msg, struct bench_worker, begin);

	for (unsigned i = 0; i < worker->n_queues; i++)
		begin_queue(&worker->queues[i]);
}

/* I/O that is in flight now counts when it completes, with its whole latency. */
static void measure(struct loop_msg *msg)
{
	struct bench_worker *worker = container_of(msg, struct bench_worker, measure);

	worker->latency = (struct histogram){0};
	worker->n_errors = 0;
	for (unsigned i = 0; i < worker->n_queues; i++)
		counter_add(&worker->queues[i].n_done, -worker->queues[i].n_done);
}

static void stop(struct loop_msg *msg)
{
	container_of(msg, struct bench_worker, stop)->must_stop = true;
}

static void *run(void *arg)
{
	loop_run(&((struct bench_worker *)arg)->loop);
	return NULL;
}

int bench_worker_init(struct bench_worker *worker, const struct bench_load *load, unsigned n_queues,
		      struct loop *control, void (*on_stopped)(struct loop_msg *msg), void *context)
{
	worker->load = load;
	worker->control = control;
	worker->begin.run = begin;
	worker->measure.run = measure;
	worker->stop.run = stop;
	worker->stopped.run = on_stopped;
	worker->context = context;
	worker->queues = calloc(n_queues, sizeof(*worker->queues));
	if (!worker->queues)
		return -ENOMEM;
	worker->n_queues = worker->n_running = n_queues;
	return loop_init(&worker->loop, load->spin_ns, NULL);
}

int bench_worker_add_queue(struct bench_worker *worker, struct volume *volume, unsigned i,
			   unsigned seed)
{
	struct bench_queue *queue = &worker->queues[i];

	queue->worker = worker;
	queue->random = 0x9e3779b97f4a7c15 * (seed + 1);
	queue->ios = calloc(worker->load->depth, sizeof(*queue->ios));
	if (!queue->ios)
		return -ENOMEM;
	return volume_queue_add(volume, &worker->loop, &queue->volume);
}

/* begin is sent before the loop may run: messages wait for it. */
int bench_worker_start(struct bench_worker *worker)
{
	int r = pthread_create(&worker->thread, NULL, run, worker);

	if (r)
		return -r;
	loop_send(&worker->loop, &worker->begin);
	return 0;
}

void bench_worker_measure(struct bench_worker *worker)
{
	loop_send(&worker->loop, &worker->measure);
}

void bench_worker_stop(struct bench_worker *worker)
{
	loop_send(&worker->loop, &worker->stop);
}

/* After the last volume_queue_remove: until then the loop has work for its queues. */
void bench_worker_join(struct bench_worker *worker)
{
	loop_stop(&worker->loop);
	pthread_join(worker->thread, NULL);
	loop_deinit(&worker->loop);
}

void bench_worker_deinit(struct bench_worker *worker)
{
	for (unsigned i = 0; i < worker->n_queues; i++)
		free(worker->queues[i].ios);
	free(worker->queues);
}
