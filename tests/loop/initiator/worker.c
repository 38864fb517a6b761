/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker keeps `depth` random I/Os in flight and knows what each block must read as.
 *
 * state[block] is 0 for zeroes, or the stamp of the last write, from which the content
 * follows; MAYBE_ZERO beside it after a trim, which a target may or may not carry out;
 * UNKNOWN. No two I/Os in flight overlap, so each read has exactly one right outcome.
 * When time is up, everything that is known is read once more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/loop/initiator/worker.h"

#define MAYBE_ZERO (1ull << 63)
#define UNKNOWN	   UINT64_MAX

enum {
	PICKS = 8, /* tries to find a free place */
	MISMATCHES_SHOWN = 5,
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t next_random(struct worker *worker)
{
	return mix(worker->random += 0x9e3779b97f4a7c15u);
}

/* ---- contents ---- */

static void fill(uint8_t *p, uint32_t block_size, uint64_t lba, uint64_t stamp)
{
	uint64_t word = mix(lba * 31 + stamp);

	for (uint32_t i = 0; i < block_size; i += 8, word++)
		memcpy(p + i, &word, 8);
}

static bool is_filled(const uint8_t *p, uint32_t block_size, uint64_t lba, uint64_t stamp)
{
	uint64_t word = mix(lba * 31 + stamp);

	for (uint32_t i = 0; i < block_size; i += 8, word++)
		if (memcmp(p + i, &word, 8) != 0)
			return false;
	return true;
}

static bool is_zero(const uint8_t *p, uint32_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static bool is_right(const struct worker *worker, const uint8_t *p, uint64_t block)
{
	uint64_t state = worker->state[block], stamp = state & ~MAYBE_ZERO;
	uint32_t size = worker->plan->info.block_size;

	if (state == UNKNOWN)
		return true;
	if ((!stamp || state & MAYBE_ZERO) && is_zero(p, size))
		return true;
	return stamp && is_filled(p, size, worker->start_block + block, stamp);
}

static void check_read(struct worker *worker, const struct job *job)
{
	uint32_t size = worker->plan->info.block_size;

	for (uint64_t i = 0; i < job->n; i++) {
		const uint8_t *p = (const uint8_t *)job->io.buffer + i * size;

		if (is_right(worker, p, job->first + i))
			continue;
		if (worker->n_mismatches++ < MISMATCHES_SHOWN)
			log_err("block %llu: wrong data, stamp %llx",
				(unsigned long long)(worker->start_block + job->first + i),
				(unsigned long long)worker->state[job->first + i]);
	}
}

/* ---- one I/O ---- */

static void start_jobs(struct worker *worker);

static void set_state(struct worker *worker, const struct job *job, int error)
{
	for (uint64_t i = job->first; i < job->first + job->n; i++) {
		uint64_t *state = &worker->state[i];

		if (error)
			*state = UNKNOWN;
		else if (job->io.op == VOLUME_WRITE)
			*state = job->stamp;
		else if (job->io.op == VOLUME_WRITE_ZEROES)
			*state = 0;
		else if (job->io.op == VOLUME_TRIM && !worker->plan->info.reads_zero_after_trim)
			*state = UNKNOWN;
		else if (job->io.op == VOLUME_TRIM && *state != UNKNOWN && *state)
			*state |= MAYBE_ZERO;
	}
}

static void on_done(struct volume_io *io, int error)
{
	struct job *job = container_of(io, struct job, io);
	struct worker *worker = job->worker;

	worker->n_ops[io->op]++;
	worker->n_bytes += io->op == VOLUME_READ || io->op == VOLUME_WRITE ? io->length : 0;
	histogram_add(&worker->latency[io->op], clock_ns() - io->submit_ns);
	if (error && worker->n_errors++ < MISMATCHES_SHOWN)
		log_err("operation %d at %llu: %s", io->op, (unsigned long long)io->offset,
			strerror(-error));
	if (io->op == VOLUME_READ && !error)
		check_read(worker, job);
	if (io->op != VOLUME_READ)
		set_state(worker, job, error);
	if (io->buffer)
		volume_buffer_give(worker->queue, io->buffer);
	job->is_busy = false;
	worker->n_busy--;
	start_jobs(worker);
}

static void fill_job(struct worker *worker, struct job *job)
{
	uint32_t size = worker->plan->info.block_size;

	job->stamp = ++worker->n_stamps;
	for (uint64_t i = 0; i < job->n; i++)
		fill((uint8_t *)job->io.buffer + i * size, size,
		     worker->start_block + job->first + i, job->stamp);
}

/* Takes a buffer; without one, waits and is called again. */
static void submit(struct loop_call *call)
{
	struct job *job = container_of(call, struct job, waiter);
	struct worker *worker = job->worker;
	struct volume_io *io = &job->io;

	if (io->op == VOLUME_READ || io->op == VOLUME_WRITE) {
		io->buffer = volume_buffer_take(worker->queue, io->length);
		if (!io->buffer) {
			volume_buffer_wait(worker->queue, &job->waiter);
			return;
		}
	}
	if (io->op == VOLUME_WRITE)
		fill_job(worker, job);
	volume_io_submit(worker->queue, io);
}

static void launch(struct job *job, enum volume_op op, uint64_t first, uint64_t n)
{
	struct worker *worker = job->worker;
	uint32_t size = worker->plan->info.block_size;

	job->is_busy = true;
	job->first = first;
	job->n = op == VOLUME_FLUSH ? 0 : n;
	job->io = (struct volume_io){
		.op = op,
		.is_fua = (op == VOLUME_WRITE || op == VOLUME_WRITE_ZEROES) &&
			  next_random(worker) % 8 == 0,
		.may_unmap = next_random(worker) % 2,
		.offset = (worker->start_block + first) * size,
		.length = job->n * size,
		.done = on_done,
	};
	worker->n_busy++;
	submit(&job->waiter);
}

/* ---- choosing ---- */

static bool is_used(const struct worker *worker, uint64_t first, uint64_t n)
{
	for (unsigned i = 0; i < worker->plan->depth; i++) {
		const struct job *job = &worker->jobs[i];

		if (job->is_busy && first < job->first + job->n && job->first < first + n)
			return true;
	}
	return false;
}

static enum volume_op choose_op(struct worker *worker)
{
	const struct volume_info *info = &worker->plan->info;
	uint64_t dice = next_random(worker) % 100;

	if (worker->plan->reads_only || info->is_read_only || dice < 45)
		return VOLUME_READ;
	if (dice < 88)
		return VOLUME_WRITE;
	if (dice < 92)
		return VOLUME_FLUSH;
	if (dice < 96)
		return info->has_write_zeroes ? VOLUME_WRITE_ZEROES : VOLUME_WRITE;
	return info->has_trim ? VOLUME_TRIM : VOLUME_WRITE;
}

/* Small ones more often than large ones; those without data also beyond the largest
 * I/O. */
static uint64_t choose_length(struct worker *worker, enum volume_op op)
{
	uint64_t max = worker->plan->max_io_bytes / worker->plan->info.block_size, n;

	if (op != VOLUME_READ && op != VOLUME_WRITE)
		max *= 4;
	n = max >> next_random(worker) % 12;
	n = 1 + next_random(worker) % (n ? n : 1);
	return MIN(n, worker->n_blocks);
}

static bool start_random(struct worker *worker, struct job *job)
{
	enum volume_op op = choose_op(worker);

	for (unsigned i = 0; i < PICKS; i++) {
		uint64_t n = choose_length(worker, op);
		uint64_t first = next_random(worker) % (worker->n_blocks - n + 1);

		if (op != VOLUME_FLUSH && is_used(worker, first, n))
			continue;
		launch(job, op, first, n);
		return true;
	}
	return false;
}

static bool start_final(struct worker *worker, struct job *job)
{
	uint64_t max = worker->plan->max_io_bytes / worker->plan->info.block_size;
	uint64_t n = MIN(max, worker->n_blocks - worker->at_final);

	if (!n)
		return false;
	launch(job, VOLUME_READ, worker->at_final, n);
	worker->at_final += n;
	return true;
}

static void start_jobs(struct worker *worker)
{
	const struct plan *plan = worker->plan;
	bool is_over = atomic_load(&plan->is_over);

	if (!worker->is_finishing && is_over && !worker->n_busy)
		worker->is_finishing = true;
	for (unsigned i = 0; i < plan->depth; i++) {
		struct job *job = &worker->jobs[i];

		if (job->is_busy)
			continue;
		if (worker->is_finishing ? !start_final(worker, job)
					 : is_over || !start_random(worker, job))
			break;
	}
	if (worker->is_finishing && !worker->n_busy && worker->at_final == worker->n_blocks) {
		worker->at_final++; /* once */
		loop_send(worker->control, &worker->done_msg);
	}
}

static void begin(struct loop_call *call)
{
	start_jobs(container_of(call, struct worker, begin));
}

/* ---- the thread ---- */

static void *run(void *arg)
{
	loop_run(&((struct worker *)arg)->loop);
	return NULL;
}

int worker_start(struct worker *worker)
{
	worker->state = calloc(worker->n_blocks, sizeof(*worker->state));
	if (!worker->state)
		return -1;
	for (uint64_t i = 0; !worker->plan->is_fresh && i < worker->n_blocks; i++)
		worker->state[i] = UNKNOWN;
	for (unsigned i = 0; i < worker->plan->depth; i++) {
		worker->jobs[i].worker = worker;
		worker->jobs[i].waiter.run = submit;
	}
	worker->random = worker->plan->seed + worker->start_block;
	worker->begin.run = begin;
	loop_defer(&worker->loop, &worker->begin);
	return pthread_create(&worker->thread, NULL, run, worker);
}

void worker_join(struct worker *worker)
{
	loop_stop(&worker->loop);
	pthread_join(worker->thread, NULL);
	loop_deinit(&worker->loop);
	free(worker->state);
}
