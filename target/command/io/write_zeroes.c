/* SPDX-License-Identifier: BSD-3-Clause */
/* Write Zeroes. Poller of the queue. */
#include "target/command/io/io.h"

static enum request_state execute(struct request *r)
{
	struct io_work work = {.op = BACKEND_WRITE_ZEROES,
			       .is_fua = io_is_fua(r),
			       .may_unmap = get_le32(r->sqe.cdw12) & NVME_WZ_DEAC,
			       .offset = request_offset(r),
			       .length = request_n_bytes(r)};

	return io_start(r, work, io_finish);
}

const struct nvme_command write_zeroes_command = {
	.opcode = NVME_IO_WRITE_ZEROES,
	.name = "Write Zeroes",
	.parse = io_find_blocks,
	.execute = execute,
	.access = ACCESS_WRITE,
	.cost = COST_OPERATION,
	.flags = COMMAND_HAS_RANGE | COMMAND_HEALS,
	.effects = NVME_EFFECT_CSUPP | NVME_EFFECT_LBCC,
	.optional = NVME_ONCS_WRITE_ZEROES,
};
