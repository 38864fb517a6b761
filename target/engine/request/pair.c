/* SPDX-License-Identifier: BSD-3-Clause */
/* See pair.h. When one half has a status of its own, the other half gets "failed fused command". */
#include "base/bits.h"
#include "base/check.h"
#include "target/engine/record/command_table.h"
#include "target/engine/request/pair.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/receives.h"

static enum nvme_status join_first(struct request *r, struct request *first, bool has_first_failed)
{
	check(!first || !first->pair);
	if (has_first_failed)
		return NVME_ABORTED_FAILED_FUSED | NVME_DNR;
	if (!first)
		return NVME_ABORTED_MISSING_FUSED | NVME_DNR;
	r->pair = first;
	first->pair = r;
	first->status = NVME_ABORTED_FAILED_FUSED | NVME_DNR;
	return NVME_OK;
}

static bool is_legal(const struct request *r)
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

enum nvme_status pair_meet(struct request *r, struct request **ret_left)
{
	struct queue *queue = r->queue;
	bool has_first_failed = queue->pair == PAIR_FAILED;
	struct request *first = queue->first;
	enum nvme_status status = NVME_OK;

	queue->first = NULL;
	queue->pair = PAIR_NONE;
	if (request_fuse(r) == NVME_FLAGS_FUSE_SECOND) {
		status = join_first(r, first, has_first_failed);
	} else if (first) {
		first->status = NVME_ABORTED_MISSING_FUSED | NVME_DNR;
		*ret_left = first;
	}
	if (status == NVME_OK && !is_legal(r))
		status = NVME_INVALID_FIELD | NVME_DNR;
	return status;
}

NOINLINE enum nvme_status pair_hold(struct request *r, enum nvme_status status)
{
	/* A host that sends no second must not retain a receive that all queues share. */
	if (status == NVME_OK && receive_is_scarce(r))
		status = NVME_INTERRUPTED;
	check(r->queue->pair == PAIR_NONE);
	r->queue->first = status == NVME_OK ? r : NULL;
	r->queue->pair = status == NVME_OK ? PAIR_HELD : PAIR_FAILED;
	return status;
}
