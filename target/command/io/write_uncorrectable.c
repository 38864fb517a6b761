/* SPDX-License-Identifier: BSD-3-Clause */
/* Write Uncorrectable: declares blocks lost, with lost_blocks.c. Poller of the queue. */
#include "target/command/io/io.h"
#include "target/command/io/lost_blocks.h"
#include "target/export/guard/guard_state.h"

/* Offered only if lost blocks survive a restart as well as the contents of the medium do. */
static bool is_offered(const struct namespace *ns)
{
	return ns->guard->store || ns->guard->is_volatile;
}

static enum nvme_status parse(struct request *r)
{
	enum nvme_status status = io_find_blocks(r);

	if (status != NVME_OK)
		return status;
	if (!is_offered(r->ns))
		return NVME_INVALID_OPCODE | NVME_DNR;
	r->turns = TURN_WANTED;
	return NVME_OK;
}

const struct nvme_command write_uncorrectable_command = {
	.opcode = NVME_IO_WRITE_UNCORRECTABLE,
	.name = "Write Uncorrectable",
	.parse = parse,
	.execute = lost_blocks_declare,
	.access = ACCESS_WRITE,
	.flags = COMMAND_HAS_RANGE,
	.effects = NVME_EFFECT_CSUPP | NVME_EFFECT_LBCC,
	.optional = NVME_ONCS_WRITE_UNCORRECTABLE,
	.is_offered = is_offered,
};
