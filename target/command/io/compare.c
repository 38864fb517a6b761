/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compare and Verify. The queue's poller.
 *
 * Both read the medium into a buffer that no host sees, piece by piece: Verify in pieces of 256 KiB
 * whatever its length, Compare in halves of the largest buffer, because the host's data needs the
 * other half. A host that compares more than that has its data fetched piece by piece too; what came
 * in the capsule is never more.
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/command/io/io.h"

enum {
	CHUNK_BYTES = 256 * 1024,
	PAGE = 4096, /* O_DIRECT */
};

static_assert(2 * INLINE_DATA_MAX <= BLOCK_MIN, "what came in the capsule is one piece");

uint32_t io_chunk_bytes(const struct target *target)
{
	return (uint32_t)MIN(CHUNK_BYTES, tuning_block(&target->config->tuning));
}

static enum request_state read_piece(struct request *r, void *to,
				     void (*done)(struct backend_io *io, int error))
{
	r->io.op = BACKEND_READ;
	r->io.is_fua = r->io.may_unmap = false;
	r->io.offset = io_offset(r) + r->n_moved;
	r->io.length = MIN(r->n_chunk, io_n_bytes(r) - r->n_moved);
	r->io.buffer = to;
	return io_start(r, done);
}

static bool must_stop(const struct request *r)
{
	return r->queue->is_dying || r->queue->qp.is_broken;
}

/* ---- Compare -------------------------------------------------------------------------------- */

static void on_compare_read(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	if (error < 0 || must_stop(r)) {
		request_run(r, io_end(r, io_status_of(BACKEND_READ, error)));
		return;
	}
	if (memcmp(r->data, io->buffer, io->length) != 0) {
		request_run(r, io_end(r, NVME_COMPARE_FAILURE | NVME_DNR));
		return;
	}
	r->n_moved += io->length;
	request_run(r, r->n_moved == r->length ? io_end(r, NVME_OK) : REQUEST_READ_DATA);
}

static enum request_state execute_compare(struct request *r)
{
	return read_piece(r, (char *)r->data + r->n_chunk, on_compare_read);
}

enum nvme_status compare_parse(struct request *r)
{
	const struct config_tuning *tuning = &r->queue->target->config->tuning;
	enum nvme_status status = io_find_blocks(r, ACCESS_READ);

	if (status != NVME_OK)
		return status;
	r->direction = DIRECTION_H2C;
	r->length = (uint32_t)io_n_bytes(r);
	r->n_chunk = (uint32_t)MIN(align_up(r->length, PAGE), tuning_block(tuning) / 2);
	r->n_buffer = 2 * r->n_chunk;
	r->execute = execute_compare;
	return request_check_sgl(r, true);
}

/* ---- Verify --------------------------------------------------------------------------------- */

static void on_verified(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	r->n_moved += io->length;
	if (error < 0 || must_stop(r) || r->n_moved == io_n_bytes(r))
		request_run(r, io_end(r, io_status_of(BACKEND_READ, error)));
	else
		read_piece(r, r->data, on_verified);
}

static enum request_state execute_verify(struct request *r)
{
	return read_piece(r, r->data, on_verified);
}

enum nvme_status verify_parse(struct request *r)
{
	enum nvme_status status = io_find_blocks(r, ACCESS_READ);

	if (status != NVME_OK)
		return status;
	r->n_chunk = io_chunk_bytes(r->queue->target);
	r->n_buffer = (uint32_t)MIN(r->n_chunk, align_up(io_n_bytes(r), PAGE));
	r->execute = execute_verify;
	return NVME_OK;
}
