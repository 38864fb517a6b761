/* SPDX-License-Identifier: BSD-3-Clause */
/* Verify: reads the blocks piece by piece into a buffer that is never sent. Poller of the queue. */
#include "base/bits.h"
#include "target/command/io/io.h"
#include "target/engine/request/request_run.h"

enum {
	PAGE = 4096, /* O_DIRECT */
};

static void on_read(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	r->n_moved += io->length;
	if (error < 0 || io_must_stop(r) || r->n_moved == request_n_bytes(r))
		request_run(r, io_end(r, io_status_of(BACKEND_READ, error)));
	else
		io_read_piece(r, r->data, on_read);
}

static enum request_state execute(struct request *r)
{
	return io_read_piece(r, r->data, on_read);
}

static enum nvme_status parse(struct request *r)
{
	enum nvme_status status = io_find_blocks(r);

	if (status != NVME_OK)
		return status;
	r->n_chunk = io_chunk_bytes(r->queue->target);
	r->n_buffer = (uint32_t)MIN(r->n_chunk, align_up(request_n_bytes(r), PAGE));
	return NVME_OK;
}

const struct nvme_command verify_command = {
	.opcode = NVME_IO_VERIFY,
	.name = "Verify",
	.parse = parse,
	.execute = execute,
	.access = ACCESS_READ,
	.cost = COST_READ,
	.flags = COMMAND_HAS_RANGE | COMMAND_COUNTS_READ_BLOCKS,
	.effects = NVME_EFFECT_CSUPP,
	.optional = NVME_ONCS_VERIFY,
};
