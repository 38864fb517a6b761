/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Write Uncorrectable: which commands declare blocks lost, and which bring them back. The queue's
 * poller. lost_blocks.c does it.
 */
#include "target/export/guard/guard_state.h"
#include "target/command/io/io.h"

bool uncorrectable_is_offered(const struct namespace *ns)
{
	return ns->guard->directory || ns->guard->is_volatile;
}

enum nvme_status uncorrectable_parse(struct request *r)
{
	enum nvme_status status = io_find_blocks(r, ACCESS_WRITE);

	if (status != NVME_OK)
		return status;
	if (!uncorrectable_is_offered(r->ns))
		return NVME_INVALID_OPCODE | NVME_DNR;
	r->takes_turn = true;
	r->execute = uncorrectable_execute;
	return NVME_OK;
}

bool uncorrectable_must_heal(const struct request *r)
{
	switch (r->sqe.opcode) {
	case NVME_IO_WRITE:
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_COPY:
		return r->pass.guard && guard_flags(r->pass.guard) & GUARD_BAD_BLOCKS &&
		       guard_has_bad(r->pass.guard, r->pass.slba, r->pass.n_blocks);
	default:
		return false;
	}
}
