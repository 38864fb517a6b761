/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused pairs: Compare and Write (Base 2.0, 3.4.2). Poller of the queue.
 *
 *   Compare, FUSE 1 --> held in queue->first --+
 *                                              +--> the Write carries both to the end
 *   Write, FUSE 2, the very next command ------+
 *
 * The Write executes both: one buffer for the data of both and for the blocks of the medium, two
 * RDMA READs, the turn, exclusive access to the range, compare, write. The Compare only waits for
 * its answer, so a pair never holds one buffer while it waits for another. Exclusive access
 * excludes every queue of every host: ordinary reads and writes that overlap have left or are
 * parked (guard.c).
 *
 * The command that fails gets its own status; the other gets "failed fused command".
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/command/io/fused.h"
#include "target/command/io/io.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/request_turn.h"

enum {
	PAGE = 4096, /* O_DIRECT */
};

static uint32_t slot_bytes(const struct request *r)
{
	return (uint32_t)align_up(r->length, PAGE);
}

static_assert(4 * PAGE <= BLOCK_MIN, "the largest block of a namespace fits");

/* Three slots in a buffer, whose size is a power of 2. */
uint32_t fused_max_bytes(const struct target *target)
{
	const struct config_tuning *tuning = &target->config->tuning;

	return (uint32_t)MIN(tuning_block(tuning) / 4, tuning->max_transfer);
}

/* ---- joining the two ------------------------------------------------------------------------ */

static enum request_state begin(struct request *r);

NOINLINE enum nvme_status fused_join(struct request *r)
{
	const struct request *first = r->pair;

	if (get_le32(r->sqe.nsid) != get_le32(first->sqe.nsid) ||
	    request_slba(r) != request_slba(first) ||
	    request_n_blocks(r) != request_n_blocks(first) ||
	    r->length > fused_max_bytes(r->queue->target))
		return NVME_INVALID_FIELD | NVME_DNR;
	r->n_buffer = 3 * slot_bytes(r);
	r->turns = TURN_WANTED;
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

/* ---- exclusive access ----------------------------------------------------------------------- */

static void on_open(struct pass *pass)
{
	struct request *r = request_of_pass(pass);
	enum request_state next;

	guard_end_turn(&r->pass);
	next = io_end(r, r->status);
	if (next != REQUEST_TURN) /* once more, to heal blocks that it has written */
		request_run(r, next);
}

static void finish(struct request *r, enum nvme_status status)
{
	r->status = status;
	guard_open(&r->pass, on_open);
}

/* The first fails with this status, and the second because of it. */
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
	struct io_work work = {.op = BACKEND_WRITE,
			       .is_fua = io_is_fua(r),
			       .offset = request_offset(r),
			       .length = r->length,
			       .buffer = r->data};

	io_start(r, work, on_written);
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

static void on_alone(struct pass *pass)
{
	struct request *r = request_of_pass(pass);
	enum nvme_status status = guard_check(&r->pair->pass);

	if (status != NVME_OK) {
		fail_first(r, status);
		return;
	}
	status = guard_check(&r->pass);
	if (status != NVME_OK) {
		finish(r, status);
		return;
	}
	io_start(r,
		 (struct io_work){.op = BACKEND_READ,
				  .offset = request_offset(r),
				  .length = r->length,
				  .buffer = (char *)r->buffer.data + 2 * slot_bytes(r)},
		 on_read);
}

static void on_turn(struct request *r)
{
	guard_be_alone(&r->pass, on_alone);
}

static enum request_state begin(struct request *r)
{
	return request_take_turn(r, on_turn);
}
