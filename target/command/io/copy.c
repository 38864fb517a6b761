/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffer first holds the descriptors, then each piece of data between its read and its write.
 * When a range cannot be copied, dword 0 of the answer is its number, and the ranges before it are
 * copied (NVM Command Set 1.0, 3.2.2). Ranges are copied in their order: a destination that
 * overlaps a later source changes that source. A destination that overlaps its own source gets what
 * was there before the copy, whatever the size of the pieces.
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/command/io/copy.h"
#include "target/command/io/io.h"
#include "target/engine/request/request_run.h"

enum {
	DESCRIPTOR_BYTES = COPY_RANGES_MAX * sizeof(struct nvme_copy_range),
	RANGE_BYTES = 16 * 1024 * 1024,
	COPY_BYTES = 128 * 1024 * 1024,
};

static_assert(2 * DESCRIPTOR_BYTES <= BLOCK_MIN, "data fits beside its descriptors");

uint32_t copy_max_range_blocks(const struct namespace *ns)
{
	return (uint32_t)RANGE_BYTES >> ns->block_shift;
}

uint32_t copy_max_blocks(const struct namespace *ns)
{
	return (uint32_t)COPY_BYTES >> ns->block_shift;
}

static uint64_t range_slba(const struct request *r, unsigned i)
{
	struct nvme_copy_range range;

	memcpy(&range, (const char *)r->data + i * sizeof(range), sizeof(range));
	return get_le64(range.slba);
}

static uint32_t range_blocks(const struct request *r, unsigned i)
{
	struct nvme_copy_range range;

	memcpy(&range, (const char *)r->data + i * sizeof(range), sizeof(range));
	return get_le16(range.nlb) + 1u;
}

/* ---- checks --------------------------------------------------------------------------------- */

static enum nvme_status check_range(const struct request *r, unsigned i)
{
	uint64_t slba = range_slba(r, i), n_blocks = range_blocks(r, i);

	if (n_blocks > copy_max_range_blocks(r->ns))
		return NVME_COMMAND_SIZE_LIMIT | NVME_DNR;
	if (!io_is_in_range(r->ns, slba, n_blocks))
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	if (guard_has_bad(r->ns->guard, slba, n_blocks))
		return NVME_UNRECOVERED_READ | NVME_DNR;
	return NVME_OK;
}

/* The range that exclusive owners must wait for: from the first block of the sources and the
 * destination to the last one. */
static void take_hull(struct request *r, uint64_t n_blocks)
{
	uint64_t begin = request_slba(r), end = begin + n_blocks;

	for (unsigned i = 0; i < r->n_ranges; i++) {
		begin = MIN(begin, range_slba(r, i));
		end = MAX(end, range_slba(r, i) + range_blocks(r, i));
	}
	r->pass.slba = begin;
	r->pass.n_blocks = end - begin;
}

static enum nvme_status check_ranges(struct request *r)
{
	uint64_t n_blocks = 0;

	for (unsigned i = 0; i < r->n_ranges; i++) {
		enum nvme_status status = check_range(r, i);

		if (status != NVME_OK) {
			r->result = i;
			return status;
		}
		n_blocks += range_blocks(r, i);
	}
	if (n_blocks > copy_max_blocks(r->ns))
		return NVME_COMMAND_SIZE_LIMIT | NVME_DNR;
	if (!io_is_in_range(r->ns, request_slba(r), n_blocks))
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	take_hull(r, n_blocks);
	return NVME_OK;
}

/* ---- piece by piece ------------------------------------------------------------------------- */

static enum request_state copy_piece(struct request *r);

static enum request_state fail(struct request *r, enum nvme_status status)
{
	r->result = r->range;
	return io_end(r, status);
}

/* The offsets of the current range and of its copy. */
static uint64_t range_offset(const struct request *r)
{
	return range_slba(r, r->range) << r->ns->block_shift;
}

static uint32_t range_bytes(const struct request *r)
{
	return range_blocks(r, r->range) << r->ns->block_shift;
}

static uint64_t copy_offset(const struct request *r)
{
	return request_offset(r) + r->n_moved - (range_bytes(r) - r->n_chunk);
}

/* The place of the next piece of n_bytes in the range. Pieces go from the end of the range to its
 * beginning if the other order would overwrite pieces that are still to be read. */
static uint64_t piece_offset(const struct request *r, uint64_t n_bytes)
{
	uint64_t from = range_offset(r), to = copy_offset(r);

	if (from < to && to < from + range_bytes(r))
		return r->n_chunk - n_bytes;
	return range_bytes(r) - r->n_chunk;
}

/* The command has read its sources; lost blocks that it has written become valid. */
static enum request_state finish(struct request *r)
{
	r->pass.slba = request_slba(r);
	r->pass.n_blocks = r->n_moved >> r->ns->block_shift;
	return io_end(r, NVME_OK);
}

/* r->n_chunk is what is left of the range. */
static void on_written(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);
	enum request_state next;

	if (error < 0) {
		next = fail(r, io_status_of(BACKEND_WRITE, error));
	} else if (queue_is_dying(r->queue)) {
		next = REQUEST_RESPOND;
	} else {
		r->n_moved += io->length;
		r->n_chunk -= (uint32_t)io->length;
		if (!r->n_chunk && ++r->range < r->n_ranges)
			r->n_chunk = range_bytes(r);
		next = r->n_chunk ? copy_piece(r) : finish(r);
	}
	if (next != REQUEST_BACKEND)
		request_run(r, next);
}

static void on_read(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);
	struct io_work work;

	if (error < 0) {
		request_run(r, fail(r, io_status_of(BACKEND_READ, error)));
		return;
	}
	work = (struct io_work){.op = BACKEND_WRITE,
				.is_fua = io_is_fua(r),
				.offset = copy_offset(r) + piece_offset(r, io->length),
				.length = io->length,
				.buffer = io->buffer};
	io_start(r, work, on_written);
}

static enum request_state copy_piece(struct request *r)
{
	uint64_t n_bytes = MIN(r->n_chunk, r->n_buffer - DESCRIPTOR_BYTES);
	struct io_work work = {.op = BACKEND_READ,
			       .offset = range_offset(r) + piece_offset(r, n_bytes),
			       .length = n_bytes,
			       .buffer = (char *)r->data + DESCRIPTOR_BYTES};

	return io_start(r, work, on_read);
}

static enum request_state execute(struct request *r)
{
	enum nvme_status status = check_ranges(r);

	if (status != NVME_OK)
		return io_end(r, status);
	r->n_chunk = range_bytes(r);
	return copy_piece(r);
}

static enum nvme_status parse(struct request *r)
{
	uint32_t cdw12 = get_le32(r->sqe.cdw12);
	enum nvme_status status = io_find_namespace(r);

	if (status != NVME_OK)
		return status;
	if (NVME_COPY_FORMAT(cdw12) != 0 || cdw12 & NVME_COPY_PRINFO)
		return NVME_INVALID_FIELD | NVME_DNR;
	r->n_ranges = (cdw12 & NVME_COPY_NR_MASK) + 1;
	if (r->n_ranges > COPY_RANGES_MAX)
		return NVME_COMMAND_SIZE_LIMIT | NVME_DNR;
	r->pass.n_blocks = UINT64_MAX; /* its ranges are not known yet */
	r->range = 0;
	r->direction = DIRECTION_H2C;
	r->length = r->n_ranges * (uint32_t)sizeof(struct nvme_copy_range);
	r->n_buffer = io_chunk_bytes(r->queue->target);
	return parse_check_sgl(r, false);
}

const struct nvme_command copy_command = {
	.opcode = NVME_IO_COPY,
	.name = "Copy",
	.parse = parse,
	.execute = execute,
	.access = ACCESS_WRITE,
	.cost = COST_OPERATION,
	.flags = COMMAND_HEALS | COMMAND_COUNTS_WRITE | COMMAND_COUNTS_WRITTEN_BLOCKS,
	.effects = NVME_EFFECT_CSUPP | NVME_EFFECT_LBCC,
	.optional = NVME_ONCS_COPY,
};
