/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compare. Poller of the queue.
 *
 * One half of the buffer holds the host's data, the other half the blocks of the medium. A Compare
 * that is longer than half of the largest buffer goes piece by piece: fetch, read, compare.
 * In-capsule data is always one piece.
 */
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/command/io/io.h"
#include "target/engine/request/request_run.h"

enum {
	PAGE = 4096, /* O_DIRECT */
};

static_assert(2 * INLINE_DATA_MAX <= BLOCK_MIN, "data in the capsule is one piece");

static void on_read(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);

	if (error < 0 || io_must_stop(r)) {
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

static enum request_state execute(struct request *r)
{
	return io_read_piece(r, (char *)r->data + r->n_chunk, on_read);
}

static enum nvme_status parse(struct request *r)
{
	const struct config_tuning *tuning = &r->queue->target->config->tuning;
	enum nvme_status status = io_find_blocks(r);

	if (status != NVME_OK)
		return status;
	r->direction = DIRECTION_H2C;
	r->length = (uint32_t)request_n_bytes(r);
	r->n_chunk = (uint32_t)MIN(align_up(r->length, PAGE), tuning_block(tuning) / 2);
	r->n_buffer = 2 * r->n_chunk;
	return parse_check_sgl(r, true);
}

const struct nvme_command compare_command = {
	.opcode = NVME_IO_COMPARE,
	.name = "Compare",
	.parse = parse,
	.execute = execute,
	.access = ACCESS_READ,
	.cost = COST_READ,
	.flags = COMMAND_HAS_RANGE | COMMAND_COUNTS_READ | COMMAND_COUNTS_READ_BLOCKS |
		 COMMAND_FUSED_FIRST,
	.effects = NVME_EFFECT_CSUPP,
	.optional = NVME_ONCS_COMPARE,
};
