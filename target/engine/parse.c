/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that all commands have in common: is the capsule well formed, and may the queue send this
 * command now? The command's own parser checks the rest. Poller of the queue.
 */
#include "target/engine/controller.h"
#include "target/engine/command_table.h"
#include "target/engine/parse.h"

/* Any command proves that the host is alive (TBKAS). The time is written at most ten times a
 * second, because all pollers read its cache line. */
static inline void note_traffic(struct controller *controller, uint64_t now_ns)
{
	uint64_t last = atomic_load_explicit(&controller->last_traffic_ns, memory_order_relaxed);

	if (now_ns > last + TRAFFIC_NOTE_MS * NSEC_PER_MSEC)
		atomic_store_explicit(&controller->last_traffic_ns, now_ns, memory_order_relaxed);
}

static bool is_ready(const struct queue *queue)
{
	const struct controller *controller = queue->controller;

	return queue->qid ? atomic_load_explicit(&controller->is_ready, memory_order_acquire)
			  : controller->csts & NVME_CSTS_RDY;
}

/* Most likely a Fabrics command, which is legal earlier than the others. */
static __attribute__((noinline)) enum nvme_status check_early(const struct request *r)
{
	unsigned flags = r->command->flags;

	if (flags & COMMAND_BEFORE_CONNECT)
		return NVME_OK;
	if (!r->queue->controller)
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	if (r->queue->access == QUEUE_UNPROVEN && !(flags & COMMAND_BEFORE_PROOF))
		return NVME_AUTH_REQUIRED | NVME_DNR;
	return NVME_OK;
}

static inline enum nvme_status check_sequence(const struct request *r)
{
	if (r->command->flags & COMMAND_EARLY)
		return check_early(r);
	if (!r->queue->controller)
		return NVME_COMMAND_SEQUENCE | NVME_DNR;
	if (r->queue->access == QUEUE_UNPROVEN)
		return NVME_AUTH_REQUIRED | NVME_DNR;
	return is_ready(r->queue) ? NVME_OK : NVME_COMMAND_SEQUENCE | NVME_DNR;
}

enum nvme_status parse_command(struct request *r)
{
	struct controller *controller = r->queue->controller;
	enum nvme_status status;

	if (!parse_has_sgl(r))
		return NVME_INVALID_FIELD | NVME_DNR;
	status = sgl_parse(&r->sqe.sgl, r->received, &r->sgl);
	if (status != NVME_OK)
		return status;
	/* An I/O queue that is not authenticated keeps no association alive. */
	if (controller && (r->queue->access != QUEUE_UNPROVEN || !r->queue->qid))
		note_traffic(controller, r->queue->poller->loop.now_ns);
	status = check_sequence(r);
	if (status != NVME_OK)
		return status;
	r->execute = r->command->execute;
	return r->command->parse(r);
}

enum nvme_status parse_check_sgl(const struct request *r, bool is_exact)
{
	if (r->direction == DIRECTION_C2H && r->sgl.place == SGL_CAPSULE)
		return NVME_INVALID_FIELD | NVME_DNR;
	if (r->length > r->queue->target->config->tuning.max_transfer)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	if (is_exact ? r->sgl.length != r->length : r->sgl.length < r->length)
		return NVME_SGL_LENGTH_INVALID | NVME_DNR;
	return NVME_OK;
}
