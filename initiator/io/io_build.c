/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command of an I/O. I/O loop only.
 *
 * Where data goes: a write not longer than the capsule's data room travels in the
 * capsule; all else is described by a keyed descriptor, and the target fetches or brings
 * it by RDMA. The key is that of all of the queue's buffers; or, with memory windows, one
 * for this command's data alone, which the target is asked to invalidate with its answer.
 */
#include "base/bits.h"
#include "initiator/io/io_build.h"
#include "initiator/io/queue_impl.h"
#include "transport/qp_post.h"

static void set_keyed(struct nvme_sqe *sqe, const void *address, uint64_t n_bytes, uint32_t rkey)
{
	sqe->sgl.keyed.address = put_le64((uintptr_t)address);
	sqe->sgl.keyed.length = put_le24((uint32_t)n_bytes);
	sqe->sgl.keyed.key = put_le32(rkey);
}

/* The registration of what the I/O reads or writes. */
static inline const struct mr *mr_of(const struct lane *lane, const struct volume_io *io,
				     const void *data)
{
	return io->memory ? &io->memory->mrs[lane->limits.path]
			  : slab_mr(&lane->queue->slab, &lane->keys, data);
}

static NOINLINE void lend_window(struct lane *lane, struct command *command, void *data,
				 uint64_t n_bytes, enum mr_access access)
{
	struct nvme_sqe *sqe = &command->capsule->sqe;

	set_keyed(sqe, data, n_bytes,
		  qp_bind(&lane->qp, &command->window, mr_of(lane, command->io, data), data,
			  (uint32_t)n_bytes, access));
	sqe->sgl.keyed.type = NVME_SGL_KEYED_INVALIDATE;
	command->data = COMMAND_DATA_LENT;
	lane->table.n_lent++;
}

/* The data of a read (MR_REMOTE_WRITE) or of a write (MR_REMOTE_READ). */
static inline void lend(struct lane *lane, struct command *command, void *data, uint64_t n_bytes,
			enum mr_access access)
{
	if (lane->limits.has_windows)
		lend_window(lane, command, data, n_bytes, access);
	else
		set_keyed(&command->capsule->sqe, data, n_bytes,
			  mr_of(lane, command->io, data)->rkey);
}

static void set_in_capsule(struct nvme_sqe *sqe, uint64_t n_bytes)
{
	sqe->sgl = (struct nvme_sgl){.block = {
					     .length = put_le32((uint32_t)n_bytes),
					     .type = NVME_SGL_DATA_BLOCK_OFFSET,
				     }};
}

/* Data for the target: in the capsule, or lent. Returns the number of sges. */
static inline unsigned add_data(struct lane *lane, struct command *command, void *data,
				uint64_t n_bytes, struct sge *sges)
{
	if (n_bytes > lane->limits.in_capsule_bytes) {
		lend(lane, command, data, n_bytes, MR_REMOTE_READ);
		return 1;
	}
	set_in_capsule(&command->capsule->sqe, n_bytes);
	sges[1] = (struct sge){data, (uint32_t)n_bytes, mr_of(lane, command->io, data)->lkey};
	command->data = COMMAND_DATA_SENT;
	return 2;
}

static void set_blocks(struct nvme_sqe *sqe, uint64_t slba, uint64_t n_blocks, uint32_t flags)
{
	sqe->cdw10 = put_le32((uint32_t)slba);
	sqe->cdw11 = put_le32((uint32_t)(slba >> 32));
	sqe->cdw12 = put_le32((uint32_t)(n_blocks - 1) | flags);
}

/* How much of the I/O the next command does. */
static uint64_t part_bytes(const struct lane *lane, const struct volume_io *io)
{
	const struct lane_limits *limits = &lane->limits;
	uint64_t left = io->length - io->done_bytes;

	switch (io->op) {
	case VOLUME_READ:
	case VOLUME_WRITE:
		return MIN(left, (uint64_t)limits->max_transfer);
	case VOLUME_WRITE_ZEROES:
		return MIN(left, limits->max_zero_blocks << limits->block_shift);
	case VOLUME_TRIM:
		return MIN(left, limits->max_trim_blocks << limits->block_shift);
	case VOLUME_COMPARE_AND_WRITE:
		return left;
	case VOLUME_FLUSH:
		break;
	}
	return 0;
}

unsigned io_build(struct lane *lane, struct command *command, struct sge sges[QP_SGE_MAX])
{
	const struct lane_limits *limits = &lane->limits;
	struct volume_io *io = command->io;
	struct nvme_sqe *sqe = &command->capsule->sqe;
	struct nvme_dsm_range *range = &command->capsule->range;
	uint64_t slba = (io->offset + io->done_bytes) >> limits->block_shift;
	uint64_t n_bytes = part_bytes(lane, io), n_blocks = n_bytes >> limits->block_shift;
	uint32_t fua = io->is_fua ? NVME_RW_FUA : 0;
	uint8_t *data = (uint8_t *)io->buffer + io->done_bytes;

	sges[0] = (struct sge){sqe, sizeof(*sqe), lane->table.mr.lkey};
	sqe->nsid = put_le32(limits->nsid);
	command->n_bytes = n_bytes;
	switch (io->op) {
	case VOLUME_READ:
		sqe->opcode = NVME_IO_READ;
		set_blocks(sqe, slba, n_blocks, 0);
		lend(lane, command, data, n_bytes, MR_REMOTE_WRITE);
		return 1;
	case VOLUME_WRITE:
		sqe->opcode = NVME_IO_WRITE;
		set_blocks(sqe, slba, n_blocks, fua);
		return add_data(lane, command, data, n_bytes, sges);
	case VOLUME_COMPARE_AND_WRITE:
		sqe->opcode = command->is_second ? NVME_IO_WRITE : NVME_IO_COMPARE;
		set_blocks(sqe, slba, n_blocks, command->is_second ? fua : 0);
		data += command->is_second ? n_bytes : 0;
		return add_data(lane, command, data, n_bytes, sges);
	case VOLUME_WRITE_ZEROES:
		sqe->opcode = NVME_IO_WRITE_ZEROES;
		if (io->may_unmap && limits->can_unmap_zeroes)
			fua |= NVME_WZ_DEAC;
		set_blocks(sqe, slba, n_blocks, fua);
		return 1;
	case VOLUME_TRIM:
		sqe->opcode = NVME_IO_DSM;
		sqe->cdw11 = put_le32(NVME_DSM_AD); /* cdw10 0: one range */
		*range = (struct nvme_dsm_range){
			.nlb = put_le32((uint32_t)n_blocks),
			.slba = put_le64(slba),
		};
		if (sizeof(*range) > limits->in_capsule_bytes) {
			set_keyed(sqe, range, sizeof(*range), lane->table.mr.rkey);
			return 1;
		}
		set_in_capsule(sqe, sizeof(*range));
		sges[0].length += (uint32_t)sizeof(*range); /* it lies behind the command */
		return 1;
	case VOLUME_FLUSH:
		sqe->opcode = NVME_IO_FLUSH;
		return 1;
	}
	return 1;
}
