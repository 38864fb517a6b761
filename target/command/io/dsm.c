/* SPDX-License-Identifier: BSD-3-Clause */
/* Dataset Management: deallocates ranges; its other hints have no effect. Poller of the queue. */
#include <errno.h>
#include <string.h>

#include "target/command/io/io.h"
#include "target/engine/request/request_run.h"

static struct nvme_dsm_range range_at(const struct request *r, unsigned i)
{
	struct nvme_dsm_range range;

	memcpy(&range, (const char *)r->data + i * sizeof(range), sizeof(range));
	return range;
}

static enum request_state discard_from(struct request *r);

static void on_discarded(struct backend_io *io, int error)
{
	struct request *r = container_of(io, struct request, io);
	enum request_state next;

	r->range++;
	/* Deallocation is advice: a backend without it leaves the blocks as they are. */
	if (error < 0 && error != -EOPNOTSUPP)
		next = io_end(r, io_status_of(BACKEND_DISCARD, error));
	else if (queue_is_dying(r->queue))
		next = REQUEST_RESPOND;
	else
		next = discard_from(r);
	if (next != REQUEST_BACKEND)
		request_run(r, next);
}

/* Passes the next range that is not empty to the backend. */
static enum request_state discard_from(struct request *r)
{
	for (; r->range < r->n_ranges; r->range++) {
		struct nvme_dsm_range range = range_at(r, r->range);
		unsigned shift = r->ns->block_shift;
		struct io_work work = {.op = BACKEND_DISCARD,
				       .is_fua = io_is_durable(r),
				       .offset = get_le64(range.slba) << shift,
				       .length = (uint64_t)get_le32(range.nlb) << shift};

		if (work.length)
			return io_start(r, work, on_discarded);
	}
	return io_end(r, NVME_OK);
}

static enum request_state execute(struct request *r)
{
	for (unsigned i = 0; i < r->n_ranges; i++) {
		struct nvme_dsm_range range = range_at(r, i);

		if (!io_is_in_range(r->ns, get_le64(range.slba), get_le32(range.nlb)))
			return io_end(r, NVME_LBA_OUT_OF_RANGE | NVME_DNR);
	}
	if (!(get_le32(r->sqe.cdw11) & NVME_DSM_AD) || !r->ns->backend->limits.can_discard)
		return io_end(r, NVME_OK);
	return discard_from(r);
}

static enum nvme_status parse(struct request *r)
{
	enum nvme_status status = io_find_namespace(r);

	if (status != NVME_OK)
		return status;
	r->pass.n_blocks = UINT64_MAX; /* its ranges are not known yet */
	r->n_ranges = (get_le32(r->sqe.cdw10) & NVME_DSM_NR_MASK) + 1;
	r->range = 0;
	r->direction = DIRECTION_H2C;
	r->length = r->n_ranges * (uint32_t)sizeof(struct nvme_dsm_range);
	/* Linux always describes 4096 bytes. */
	return parse_check_sgl(r, false);
}

const struct nvme_command dsm_command = {
	.opcode = NVME_IO_DSM,
	.name = "Dataset Management",
	.parse = parse,
	.execute = execute,
	.access = ACCESS_WRITE,
	.cost = COST_OPERATION,
	.effects = NVME_EFFECT_CSUPP | NVME_EFFECT_LBCC,
	.optional = NVME_ONCS_DSM,
};
