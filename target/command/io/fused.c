/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused pairs: Compare and Write (Base 2.0, 3.4.2). The queue's poller.
 *
 *   Compare, FUSE 1 --> held in queue->first --+
 *                                              +--> the Write carries both to the end
 *   Write, FUSE 2, the very next command ------+
 *
 * The second does everything: one buffer for the data of both and for what is on the medium, two
 * RDMA READs, its turn, alone in its range, compare, write. The first only waits for its answer, so
 * a pair never holds one buffer while it waits for another. Alone means against every queue of
 * every host: ordinary reads and writes that overlap have left or are parked (guard.c).
 *
 * What goes wrong with one is told to that one; the other gets "failed fused command".
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/command/io/fused.h"
#include "target/command/io/io.h"
#include "target/engine/receives.h"

enum {
	PAGE = 4096, /* O_DIRECT */
};

static uint32_t slot_bytes(const struct request *r)
{
	return (uint32_t)align_up(r->length, PAGE);
}

static_assert(4 * PAGE <= BLOCK_MIN, "the largest block of a namespace fits");

/* Three slots in a buffer, which is a power of 2. */
uint32_t fused_max_bytes(const struct target *target)
{
	const struct config_tuning *tuning = &target->config->tuning;

	return (uint32_t)MIN(tuning_block(tuning) / 4, tuning->max_transfer);
}

/* ---- two become one ------------------------------------------------------------------------- */

enum nvme_status fused_meet(struct request *r)
{
	struct queue *queue = r->queue;
	struct request *first = queue->first;
	bool has_first_failed = queue->has_first_failed;

	if (!first && !has_first_failed && !request_fuse(r))
		return NVME_OK;
	queue->first = NULL;
	queue->has_first_failed = false;
	if (request_fuse(r) == NVME_FLAGS_FUSE_SECOND) {
		if (has_first_failed)
			return NVME_ABORTED_FAILED_FUSED | NVME_DNR;
		if (!first)
			return NVME_ABORTED_MISSING_FUSED | NVME_DNR;
		r->pair = first;
		first->pair = r;
		first->status = NVME_ABORTED_FAILED_FUSED | NVME_DNR;
		return NVME_OK;
	}
	if (first)
		request_run(first, request_end(first, NVME_ABORTED_MISSING_FUSED | NVME_DNR));
	return NVME_OK;
}

bool fused_is_known(const struct request *r)
{
	switch (request_fuse(r)) {
	case 0:
		return true;
	case NVME_FLAGS_FUSE_FIRST:
		return r->queue->qid && r->sqe.opcode == NVME_IO_COMPARE;
	case NVME_FLAGS_FUSE_SECOND:
		return r->queue->qid && r->sqe.opcode == NVME_IO_WRITE;
	default:
		return false;
	}
}

__attribute__((noinline)) enum nvme_status fused_hold(struct request *r, enum nvme_status status)
{
	/* Receives that all queues share must not be held by hosts that do not go on. */
	if (status == NVME_OK && receive_is_scarce(r))
		status = NVME_INTERRUPTED;
	if (status == NVME_OK)
		r->queue->first = r;
	else
		r->queue->has_first_failed = true;
	return status;
}

static enum request_state begin(struct request *r);

__attribute__((noinline)) enum nvme_status fused_join(struct request *r)
{
	const struct request *first = r->pair;

	if (get_le32(r->sqe.nsid) != get_le32(first->sqe.nsid) || io_slba(r) != io_slba(first) ||
	    io_n_blocks(r) != io_n_blocks(first) || r->length > fused_max_bytes(r->queue->target))
		return NVME_INVALID_FIELD | NVME_DNR;
	r->n_buffer = 3 * slot_bytes(r);
	r->takes_turn = true;
	r->execute = begin;
	return NVME_OK;
}

void fused_place(struct request *r)
{
	const struct request *first = r->pair;

	r->data = (char *)r->buffer.data + slot_bytes(r);
	if (first->sgl.place != SGL_CAPSULE)
		return;
	memcpy(r->buffer.data, (char *)first->recv->data + first->sgl.offset, r->length);
	r->has_first_data = true;
}

/* ---- alone ---------------------------------------------------------------------------------- */

static void on_open(struct request *r)
{
	enum request_state next;

	guard_end_turn(r);
	next = io_end(r, r->status);
	if (next != REQUEST_TURN) /* once more, to heal what it has written */
		request_run(r, next);
}

static void finish(struct request *r, enum nvme_status status)
{
	r->status = status;
	guard_open(r, on_open);
}

/* The first fails with this, and the second because of it. */
static void fail_first(struct request *r, enum nvme_status status)
{
	r->pair->status = status;
	finish(r, NVME_ABORTED_FAILED_FUSED | NVME_DNR);
}

static void on_written(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	if (error == 0)
		r->pair->status = NVME_OK;
	finish(r, io_status_of(BACKEND_WRITE, error));
}

static void write_blocks(struct request *r)
{
	r->io.op = BACKEND_WRITE;
	r->io.is_fua = get_le32(r->sqe.cdw12) & NVME_RW_FUA;
	r->io.may_unmap = false;
	r->io.buffer = r->data;
	io_start(r, on_written);
}

static void on_read(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	if (error < 0)
		fail_first(r, io_status_of(BACKEND_READ, error));
	else if (memcmp(r->buffer.data, r->io.buffer, r->length) != 0)
		fail_first(r, NVME_COMPARE_FAILURE | NVME_DNR);
	else
		write_blocks(r);
}

static void on_alone(struct request *r)
{
	enum nvme_status status = guard_check(r->pair);

	if (status != NVME_OK) {
		fail_first(r, status);
		return;
	}
	status = guard_check(r);
	if (status != NVME_OK) {
		finish(r, status);
		return;
	}
	r->io.op = BACKEND_READ;
	r->io.is_fua = r->io.may_unmap = false;
	r->io.offset = io_offset(r);
	r->io.length = r->length;
	r->io.buffer = (char *)r->buffer.data + 2 * slot_bytes(r);
	io_start(r, on_read);
}

static void on_turn(struct request *r)
{
	guard_be_alone(r, on_alone);
}

static enum request_state begin(struct request *r)
{
	return (enum request_state)guard_take_turn(r, on_turn);
}
