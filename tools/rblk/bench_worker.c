/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The load: on each queue depth I/Os, each submitted again as soon as it is done, until the worker
 * stops. Each has its own piece of registered memory. Thread: the worker's, except where
 * bench_worker.h names control.
 *
 * This is a closed loop: an I/O that is slow delays the next one of its slot only, so the result is
 * the rate at a depth, not the latency at a rate.
 *
 * With one queue the library polls and sleeps (rblk_wait). A thread with several looks at each in
 * turn, for as long as a loop would poll (patience.h), and then sleeps on the descriptors of all.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/wake_up.h"
#include "tools/rblk/bench_worker.h"

/* ---- the load ---- */

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

/* Only offset and time change. If the namespace has become smaller, an I/O beyond its end is
 * refused, and its slot stays empty. */
static void start_io(struct bench_io *b)
{
	struct bench_queue *queue = b->queue;

	b->io.offset = next_offset(queue);
	b->started_ns = clock_ns();
	if (rblk_submit(queue->rblk, &b->io) == 0) {
		queue->worker->n_in_flight++;
		return;
	}
	counter_add(&queue->n_done, 1);
	queue->worker->n_errors++;
}

/* The time stamp is taken before the next I/O is built: that work belongs to the next one. */
static void on_done(struct rblk_io *io)
{
	struct bench_io *b = container_of(io, struct bench_io, io);
	struct bench_worker *worker = b->queue->worker;

	worker->n_in_flight--;
	counter_add(&b->queue->n_done, 1);
	if (io->result)
		worker->n_errors++;
	else
		histogram_add(&worker->latency, clock_ns() - b->started_ns);
	if (!atomic_load_explicit(&worker->must_stop, memory_order_relaxed))
		start_io(b);
}

/* Buffers are written once, so that no page of zeros is shared behind them. */
static void begin_queue(struct bench_queue *queue)
{
	const struct bench_load *load = queue->worker->load;

	for (unsigned i = 0; i < load->depth; i++) {
		struct bench_io *b = &queue->ios[i];

		b->queue = queue;
		b->io.op = load->is_write ? RBLK_WRITE : RBLK_READ;
		b->io.length = load->block_bytes;
		b->io.buffer = queue->memory + i * load->block_bytes;
		b->io.memory = queue->registered;
		b->io.done = on_done;
		memset(b->io.buffer, (int)i, load->block_bytes);
		start_io(b);
	}
	rblk_send(queue->rblk);
}

/* I/O that is in flight now counts when it completes, with its whole latency. */
static void begin_to_measure(struct bench_worker *worker)
{
	worker->latency = (struct histogram){0};
	worker->n_errors = 0;
	for (unsigned i = 0; i < worker->n_queues; i++)
		counter_add(&worker->queues[i].n_done, -worker->queues[i].n_done);
}

/* ---- turns ---- */

/* True: something has ended. Each look also sends what on_done has submitted. */
static bool poll_all(struct bench_worker *worker)
{
	int n = 0;

	for (unsigned i = 0; i < worker->n_queues; i++)
		n += rblk_poll(worker->queues[i].rblk, NULL, 0);
	return n > 0;
}

/* All queues were found empty: whether to look again at once. The policy of a loop (base/loop.c),
 * since a loop is what these queues would share. Each has something in flight. */
static bool is_patient(struct bench_worker *worker)
{
	struct patience *patience = &worker->patience;
	uint64_t now_ns = clock_ns();

	if (!patience->since_ns)
		patience_begin_pause(patience, now_ns,
				     (struct patience_pause){.n_in_flight = worker->n_queues});
	if (patience_must_look(patience, now_ns))
		patience_looked(patience, now_ns, crowd_look(&worker->crowd, now_ns));
	return patience_lasts(patience, now_ns);
}

/* Each queue is armed first, so that an end between the last look and the sleep is not missed. */
static void sleep_on_all(struct bench_worker *worker)
{
	for (unsigned i = 0; i < worker->n_queues; i++)
		if (rblk_arm(worker->queues[i].rblk))
			return; /* something came */
	patience_sleeps(&worker->patience);
	crowd_sleeps(&worker->crowd);
	poll(worker->fds, worker->n_queues, -1);
}

static void turn(struct bench_worker *worker)
{
	if (worker->n_queues == 1)
		rblk_wait(worker->queues[0].rblk, NULL, 0, -1);
	else if (poll_all(worker))
		patience_found(&worker->patience, clock_ns());
	else if (!is_patient(worker))
		sleep_on_all(worker);
}

static void *run(void *arg)
{
	struct bench_worker *worker = arg;

	for (unsigned i = 0; i < worker->n_queues; i++)
		begin_queue(&worker->queues[i]);
	while (worker->n_in_flight) {
		turn(worker);
		if (atomic_load_explicit(&worker->must_measure, memory_order_relaxed) &&
		    atomic_exchange(&worker->must_measure, false))
			begin_to_measure(worker);
	}
	loop_send(worker->control, &worker->stopped);
	return NULL;
}

/* ---- control ---- */

int bench_worker_init(struct bench_worker *worker, const struct bench_load *load, unsigned n_queues,
		      struct loop *control, void (*on_stopped)(struct loop_msg *msg), void *context)
{
	worker->load = load;
	worker->control = control;
	worker->stopped.run = on_stopped;
	worker->context = context;
	crowd_init(&worker->crowd);
	patience_init(&worker->patience, load->spin_ns,
		      spin_is_time(load->spin_ns) ? 0 : wake_up_ns());
	worker->queues = calloc(n_queues, sizeof(*worker->queues));
	worker->fds = calloc(n_queues, sizeof(*worker->fds));
	if (!worker->queues || !worker->fds)
		return -ENOMEM;
	worker->n_queues = n_queues;
	return 0;
}

int bench_worker_add_queue(struct bench_worker *worker, struct rblk_volume *volume, unsigned i,
			   unsigned seed, struct bench_memory memory, struct rblk_error *error)
{
	struct bench_queue *queue = &worker->queues[i];
	int r;

	queue->worker = worker;
	queue->memory = memory.base;
	queue->registered = memory.registered;
	queue->random = 0x9e3779b97f4a7c15 * (seed + 1);
	queue->ios = calloc(worker->load->depth, sizeof(*queue->ios));
	if (!queue->ios) {
		*error = (struct rblk_error){.code = -ENOMEM, .message = "out of memory"};
		return -ENOMEM;
	}
	r = rblk_queue_open(volume, &queue->rblk, error);
	if (r < 0 || worker->n_queues == 1)
		return r;
	worker->fds[i] = (struct pollfd){.fd = rblk_fd(queue->rblk), .events = POLLIN};
	if (worker->fds[i].fd >= 0)
		return 0;
	*error = (struct rblk_error){.code = worker->fds[i].fd,
				     .message = "cannot make a descriptor of a queue"};
	return worker->fds[i].fd;
}

int bench_worker_start(struct bench_worker *worker)
{
	return -pthread_create(&worker->thread, NULL, run, worker);
}

void bench_worker_measure(struct bench_worker *worker)
{
	atomic_store(&worker->must_measure, true);
}

void bench_worker_stop(struct bench_worker *worker)
{
	atomic_store(&worker->must_stop, true);
}

void bench_worker_join(struct bench_worker *worker)
{
	pthread_join(worker->thread, NULL);
}

void bench_worker_close(struct bench_worker *worker)
{
	for (unsigned i = 0; i < worker->n_queues; i++) {
		check(rblk_queue_close(worker->queues[i].rblk) == 0);
		worker->queues[i].rblk = NULL;
	}
}

void bench_worker_deinit(struct bench_worker *worker)
{
	if (worker->load)
		crowd_deinit(&worker->crowd);
	for (unsigned i = 0; i < worker->n_queues; i++)
		free(worker->queues[i].ios);
	free(worker->queues);
	free(worker->fds);
}
