/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Get LBA Status (NVM Command Set 1.1, 5.2.1), for one action: the allocated blocks of a range
 * (ATYPE 02h). Blocks that no descriptor of the answer covers are deallocated, and read as zeroes
 * if DLFEAT of the namespace says so. Poller of the admin queue; the store looks on a worker
 * thread, because its file system may have to read.
 *
 * The work of a command is bounded: at most BACKEND_MAP_RANGES ranges, whatever the host asks for.
 * An answer that ends before the range does is incomplete (CMPC 1), and says nothing of the blocks
 * behind its last descriptor.
 *
 * Blocks that are declared lost (Write Uncorrectable) do not read as zeroes, so they count as
 * allocated. A write that was answered before the command arrived is seen; one that runs beside it
 * may be seen or not. The other actions list unreadable blocks, and go together with the LBA Status
 * Information log, which rblkd does not have: they are refused, and OACS does not report them.
 */
#include <string.h>

#include "base/bits.h"
#include "target/command/io/io.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/request/request_run.h"
#include "target/store/map.h"

enum {
	HEADER_BYTES = sizeof(struct nvme_lba_status),
	DESC_BYTES = sizeof(struct nvme_lba_status_desc),
	ANSWER_BYTES = HEADER_BYTES + BACKEND_MAP_RANGES * DESC_BYTES,
	MAP_OFFSET = (ANSWER_BYTES + 63) / 64 * 64, /* behind the answer, in the same buffer */
	BUFFER_BYTES = MAP_OFFSET + sizeof(struct backend_map),
};
static_assert((unsigned)BUFFER_BYTES <= 4096, "any max_transfer is enough");

static struct backend_map *map_of(const struct request *r)
{
	return (struct backend_map *)(void *)((char *)r->data + MAP_OFFSET);
}

/* ---- the answer ----------------------------------------------------------------------------- */

struct answer {
	struct nvme_lba_status *status;
	struct nvme_lba_status_desc *descs;
	unsigned n, n_max;
	uint64_t end; /* the first block that no descriptor covers, of those already looked at */
};

/* Blocks [slba, end) are allocated; they begin at answer->end or later. False: no room. */
static bool add(struct answer *answer, uint64_t slba, uint64_t end)
{
	while (slba < end) {
		uint64_t n = MIN(end - slba, (uint64_t)UINT32_MAX);

		if (answer->n == answer->n_max)
			return false;
		answer->descs[answer->n++] = (struct nvme_lba_status_desc){
			.dslba = put_le64(slba),
			.nlb = put_le32((uint32_t)n),
			.status = NVME_LBARS_ALLOCATED,
		};
		slba += n;
		answer->end = slba;
	}
	return true;
}

/* Blocks [slba, end) are in a hole of the store. */
static bool add_hole(struct answer *answer, const struct guard *guard, uint64_t slba, uint64_t end)
{
	if (slba < end && guard_flags(guard) & GUARD_BAD_BLOCKS &&
	    guard_has_bad(guard, slba, end - slba))
		return add(answer, slba, end);
	answer->end = end;
	return true;
}

/* A block that is allocated in part is allocated. Two ranges may meet in one block. */
static bool add_ranges(struct answer *answer, const struct namespace *ns,
		       const struct backend_map *map)
{
	unsigned shift = ns->block_shift;

	for (unsigned i = 0; i < map->n; i++) {
		const struct backend_range *range = &map->ranges[i];
		uint64_t first = MAX(range->offset >> shift, answer->end);
		uint64_t end = align_up(range->offset + range->length, 1ULL << shift) >> shift;

		if (!add_hole(answer, ns->guard, answer->end, first) || !add(answer, first, end))
			return false;
	}
	return add_hole(answer, ns->guard, answer->end, MAX(map->end >> shift, answer->end));
}

static void on_mapped(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);
	uint64_t end = (io->offset + io->length) >> r->ns->block_shift;
	struct answer answer = {
		.status = r->data,
		.descs = ((struct nvme_lba_status *)r->data)->descs,
		.n_max = r->length > HEADER_BYTES ? (r->length - HEADER_BYTES) / DESC_BYTES : 0,
		.end = io->offset >> r->ns->block_shift,
	};
	bool is_complete;

	memset(r->data, 0, ANSWER_BYTES);
	is_complete = add_ranges(&answer, r->ns, map_of(r)) && answer.end >= end;
	answer.status->nlsd = put_le32(answer.n);
	answer.status->cmpc = is_complete ? NVME_LBA_STATUS_COMPLETE : NVME_LBA_STATUS_INCOMPLETE;
	request_run(r, request_settle(r, NVME_OK));
}

/* ---- the command ---------------------------------------------------------------------------- */

/* RL, of 16 bits; 0: up to the end of the namespace. */
static uint64_t range_blocks(const struct request *r)
{
	uint32_t rl = get_le32(r->sqe.cdw13) & 0xffff;

	return rl ? rl : r->ns->n_blocks - request_slba(r);
}

static enum request_state execute(struct request *r)
{
	timing_enter(&r->timing, STAGE_BACKEND);
	r->io.offset = request_offset(r);
	r->io.length = range_blocks(r) << r->ns->block_shift;
	r->io.buffer = map_of(r);
	r->io.done = on_mapped;
	backend_map_submit(r->ns->backend, r->queue->poller->backends, &r->io);
	return REQUEST_BACKEND;
}

static enum nvme_status parse(struct request *r)
{
	uint32_t cdw13 = get_le32(r->sqe.cdw13);
	uint64_t n_bytes = ((uint64_t)get_le32(r->sqe.cdw12) + 1) * 4;
	enum nvme_status status;

	if (cdw13 >> 24 != NVME_LBA_STATUS_ALLOCATED)
		return NVME_INVALID_FIELD | NVME_DNR;
	status = io_find_namespace(r);
	if (status != NVME_OK)
		return status;
	if (request_slba(r) >= r->ns->n_blocks)
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	if (!io_is_in_range(r->ns, request_slba(r), range_blocks(r)))
		return NVME_LBA_OUT_OF_RANGE | NVME_DNR;
	r->direction = DIRECTION_C2H;
	r->length = (uint32_t)MIN(n_bytes, (uint64_t)ANSWER_BYTES);
	r->n_buffer = BUFFER_BYTES;
	return parse_check_sgl(r, false);
}

const struct nvme_command lba_status_command = {
	.opcode = NVME_ADMIN_GET_LBA_STATUS,
	.name = "Get LBA Status",
	.parse = parse,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
};
