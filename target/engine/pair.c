/* SPDX-License-Identifier: BSD-3-Clause */
/* See pair.h. When one half has a status of its own, the other half gets "failed fused command". */
#include "target/engine/command_table.h"
#include "target/engine/pair.h"
#include "target/engine/queue.h"
#include "target/engine/receives.h"

static enum nvme_status join_first(struct request *r, struct request *first, bool has_first_failed)
{
	if (has_first_failed)
		return NVME_ABORTED_FAILED_FUSED | NVME_DNR;
	if (!first)
		return NVME_ABORTED_MISSING_FUSED | NVME_DNR;
	r->pair = first;
	first->pair = r;
	first->status = NVME_ABORTED_FAILED_FUSED | NVME_DNR;
	return NVME_OK;
}

enum nvme_status pair_meet(struct request *r)
{
	struct queue *queue = r->queue;
	struct request *first = queue->first;
	bool has_first_failed = queue->has_first_failed;

	if (!first && !has_first_failed && !request_fuse(r))
		return NVME_OK;
	queue->first = NULL;
	queue->has_first_failed = false;
	if (request_fuse(r) == NVME_FLAGS_FUSE_SECOND)
		return join_first(r, first, has_first_failed);
	if (first)
		request_run(first, request_end(first, NVME_ABORTED_MISSING_FUSED | NVME_DNR));
	return NVME_OK;
}

bool pair_is_legal(const struct request *r)
{
	switch (request_fuse(r)) {
	case 0:
		return true;
	case NVME_FLAGS_FUSE_FIRST:
		return r->command->flags & COMMAND_FUSED_FIRST;
	case NVME_FLAGS_FUSE_SECOND:
		return r->command->flags & COMMAND_FUSED_SECOND;
	default:
		return false;
	}
}

__attribute__((noinline)) enum nvme_status pair_hold(struct request *r, enum nvme_status status)
{
	/* A host that sends no second must not retain a receive that all queues share. */
	if (status == NVME_OK && receive_is_scarce(r))
		status = NVME_INTERRUPTED;
	if (status == NVME_OK)
		r->queue->first = r;
	else
		r->queue->has_first_failed = true;
	return status;
}
