/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read and Write. Poller of the queue.
 *
 * The parser checks all that can be checked before data moves: namespace, range, length against the
 * SGL, write protection. The execution passes the data to the backend. For a namespace in memory it
 * is done at once, and a Read needs no buffer: the device takes the blocks straight from memory
 * (is_direct).
 */
#include "base/bits.h"
#include "base/shared_memory.h"
#include "target/command/io/fused.h"
#include "target/command/io/io.h"
#include "target/engine/request/request_enter.h"

/* ---- access without a buffer ---------------------------------------------------------------- */

/* Reading memory that the device can reach needs no buffer. In-capsule data needs none for any
 * namespace in memory. */
static inline __attribute__((always_inline)) void
choose_direct(struct request *r, enum direction direction, uint64_t offset, uint32_t n_bytes)
{
	struct namespace *ns = r->ns;
	unsigned device = r->queue->pd->device->index;
	bool is_registered = atomic_load_explicit(&ns->registered, memory_order_acquire) >> device &
			     1;

	/* Memory that was added by growing is not registered. */
	is_registered = is_registered && offset + n_bytes <= ns->mr_bytes[device];
	if (!ns->memory ||
	    !(direction == DIRECTION_C2H ? is_registered : r->sgl.place == SGL_CAPSULE))
		return;
	r->is_direct = true;
	r->data = (char *)ns->memory + offset;
	if (is_registered)
		r->lkey = ns->mrs[device].lkey;
}

/* Copies to or from memory, unless another command is using one of the blocks. */
static bool move_at_once(const struct request *r, uint64_t offset)
{
	const struct namespace *ns = r->ns;

	return r->length ==
	       (r->direction == DIRECTION_H2C
			? whole_write(ns->whole, ns->memory, offset, r->data, r->length)
			: whole_read(ns->whole, ns->memory, offset, r->data, r->length));
}

static NOINLINE enum request_state read_many(struct request *r)
{
	if (!whole_take(r->ns->whole, request_offset(r), r->length, &r->hold))
		return request_use_buffer(r);
	request_count_read(r, r->length, r->length >> r->ns->block_shift);
	return request_end(r, NVME_OK);
}

/* ---- execution ------------------------------------------------------------------------------ */

/* The data is in the target's own memory, or a Read brings it there. */
static NOINLINE enum request_state transfer(struct request *r)
{
	bool is_write = r->direction == DIRECTION_H2C;
	uint64_t offset = request_offset(r);
	struct io_work work = {.op = is_write ? BACKEND_WRITE : BACKEND_READ,
			       .is_fua = io_is_fua(r),
			       .offset = offset,
			       .length = r->length,
			       .buffer = r->data};

	if (r->ns->memory && move_at_once(r, offset))
		return io_end(r, NVME_OK);
	return io_start(r, work, io_finish);
}

static enum request_state execute(struct request *r)
{
	const struct namespace *ns = r->ns;
	uint32_t n_bytes = r->length;
	unsigned block_shift = ns->block_shift;
	uint64_t offset = request_slba(r) << block_shift;

	if (!r->is_direct || r->direction != DIRECTION_C2H)
		return transfer(r);
	/* Values in registers are loaded once: further calls before the end would cost more. */
	if (UNLIKELY(!whole_is_one(offset, n_bytes)))
		return read_many(r);
	if (UNLIKELY(!whole_take_one(ns->whole, offset, &r->hold)))
		return request_use_buffer(r);
	/* As request_settle: the device takes the data straight from memory. */
	request_count_read(r, n_bytes, n_bytes >> block_shift);
	return request_end(r, NVME_OK);
}

/* ---- parsing -------------------------------------------------------------------------------- */

static inline enum nvme_status parse(struct request *r, enum direction direction,
				     enum access access)
{
	enum nvme_status status = io_take_namespace(r, access);
	uint64_t slba = request_slba(r);
	uint32_t n_blocks = request_n_blocks(r), n_bytes;
	unsigned block_shift;

	if (status == NVME_OK)
		status = io_take_range(r, slba, n_blocks);
	if (status != NVME_OK)
		return status;
	block_shift = r->ns->block_shift;
	n_bytes = n_blocks << block_shift; /* at most 2^16 blocks of 2^12 bytes */
	r->direction = direction;
	r->length = n_bytes;
	status = parse_check_sgl(r, true);
	if (status == NVME_OK && !request_fuse(r))
		choose_direct(r, direction, slba << block_shift, n_bytes);
	return status;
}

static enum nvme_status parse_read(struct request *r)
{
	return parse(r, DIRECTION_C2H, ACCESS_READ);
}

static enum nvme_status parse_write(struct request *r)
{
	return parse(r, DIRECTION_H2C, ACCESS_WRITE);
}

const struct nvme_command transfer_read_command = {
	.opcode = NVME_IO_READ,
	.name = "Read",
	.parse = parse_read,
	.execute = execute,
	.access = ACCESS_READ,
	.cost = COST_READ,
	.flags = COMMAND_HAS_RANGE | COMMAND_COUNTS_READ | COMMAND_COUNTS_READ_BLOCKS |
		 COMMAND_COUNTS_IN_QUEUE,
	.effects = NVME_EFFECT_CSUPP,
};

const struct nvme_command transfer_write_command = {
	.opcode = NVME_IO_WRITE,
	.name = "Write",
	.parse = parse_write,
	.execute = execute,
	.access = ACCESS_WRITE,
	.cost = COST_WRITE,
	.flags = COMMAND_HAS_RANGE | COMMAND_HEALS | COMMAND_COUNTS_WRITE |
		 COMMAND_COUNTS_WRITTEN_BLOCKS | COMMAND_COUNTS_IN_QUEUE | COMMAND_FUSED_SECOND,
	.effects = NVME_EFFECT_CSUPP | NVME_EFFECT_LBCC,
	.join = fused_join,
	.place = fused_place,
};
