/* SPDX-License-Identifier: BSD-3-Clause */
/* See io.h. */
#include <errno.h>

#include "target/command/io/io.h"
#include "target/command/io/lost_blocks.h"
#include "target/engine/request/request_run.h"

enum {
	CHUNK_BYTES = 256 * 1024,
};

/* ---- checks of parsers ---------------------------------------------------------------------- */

enum nvme_status io_find_namespace(struct request *r)
{
	return io_take_namespace(r, r->command->access);
}

enum nvme_status io_find_blocks(struct request *r)
{
	enum nvme_status status = io_find_namespace(r);

	return status == NVME_OK ? io_take_range(r, request_slba(r), request_n_blocks(r)) : status;
}

uint32_t io_chunk_bytes(const struct target *target)
{
	return (uint32_t)MIN(CHUNK_BYTES, tuning_block(&target->config->tuning));
}

enum request_state io_read_piece(struct request *r, void *buffer, io_done *done)
{
	struct io_work work = {.op = BACKEND_READ,
			       .offset = request_offset(r) + r->n_moved,
			       .length = MIN(r->n_chunk, request_n_bytes(r) - r->n_moved),
			       .buffer = buffer};

	return io_start(r, work, done);
}

/* ---- outcomes ------------------------------------------------------------------------------- */

enum nvme_status io_status_of(enum backend_op op, int error)
{
	switch (-error) {
	case 0:
		return NVME_OK;
	case ENOSPC:
	case EDQUOT:
		return NVME_CAPACITY_EXCEEDED | NVME_DNR;
	case EROFS:
	case EPERM:
		return NVME_NS_WRITE_PROTECTED | NVME_DNR;
	case EOPNOTSUPP:
		return NVME_INVALID_OPCODE | NVME_DNR;
	case EAGAIN:
	case ENOMEM:
	case EBUSY:
	case EINTR:
		return NVME_INTERRUPTED; /* the host may retry */
	default:
		return (op == BACKEND_READ ? NVME_UNRECOVERED_READ : NVME_WRITE_FAULT) | NVME_DNR;
	}
}

enum request_state io_end(struct request *r, enum nvme_status status)
{
	if (status == NVME_OK && r->command->flags & COMMAND_HEALS && lost_blocks_are_written(r))
		return lost_blocks_heal(r);
	return request_settle(r, status);
}

void io_finish(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);
	enum request_state next = io_end(r, io_status_of(io->op, error));

	request_run(r, next);
}
