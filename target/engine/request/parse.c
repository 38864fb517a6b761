/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that all commands have in common: is the capsule well formed, and may the queue send this
 * command now? The command's own parser checks the rest. Poller of the queue.
 */
#include "base/bits.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/command_table.h"
#include "target/engine/request/parse.h"
#include "target/engine/queue/queue_state.h"

/*
 * An association that was silent for longer than KATO is over, whether its timer has expired or
 * not: rblkd, or its machine, may have been stopped. Commands that arrived meanwhile revive
 * nothing.
 */
static NOINLINE bool note_again(struct controller *controller, uint64_t now)
{
	uint64_t last = atomic_load_explicit(&controller->last_traffic, memory_order_relaxed);
	struct controller_fencing *fencing = &controller->fencing;

	if (fencing_is_expired(fencing, last, now))
		return false;
	atomic_store_explicit(&controller->last_traffic, now, memory_order_relaxed);
	atomic_store_explicit(&fencing->noted_until, now + fencing->note, memory_order_relaxed);
	return true;
}

/* Any command proves that the host is alive (TBKAS). The time is written at most ten times a
 * second, because all pollers read its cache line. False: the association has expired. */
static inline bool note_traffic(struct controller *controller, uint64_t now)
{
	return now <= atomic_load_explicit(&controller->fencing.noted_until,
					   memory_order_relaxed) ||
	       note_again(controller, now);
}

/* The host may have repeated the command elsewhere by now: it must not run here. */
static NOINLINE enum nvme_status refuse_expired(const struct request *r)
{
	queue_fail(r->queue, "a command came after the association had expired");
	return NVME_KATO_EXPIRED;
}

static bool is_ready(const struct queue *queue, const struct controller *controller)
{
	return queue->qid ? atomic_load_explicit(&controller->is_ready, memory_order_acquire)
			  : queue->state == QUEUE_SERVING && controller->csts & NVME_CSTS_RDY;
}

/* A Fabrics command, most likely: legal earlier than the others. */
static enum nvme_status check_early(const struct request *r)
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

/* On a queue that may not send every command yet, or no more, or of a controller that is not ready.
 * Without DNR, a host that looks at its namespaces meanwhile keeps them. */
static NOINLINE enum nvme_status check_sequence(const struct request *r)
{
	if (queue_is_parting(r->queue) && !(r->command->flags & COMMAND_BEFORE_READY))
		return NVME_ABORTED_SQ_DELETION;
	if (r->command->flags & COMMAND_EARLY)
		return check_early(r);
	if (r->queue->access == QUEUE_UNPROVEN)
		return NVME_AUTH_REQUIRED | NVME_DNR;
	return NVME_COMMAND_SEQUENCE | NVME_DNR;
}

/* Whether the queue may send this command now. */
static inline enum nvme_status check_access(const struct request *r)
{
	const struct queue *queue = r->queue;
	struct controller *controller = queue->controller;
	uint64_t now = r->timing.started; /* not older than the capsule's arrival */

	if (UNLIKELY(queue->access != QUEUE_CONNECTED)) {
		/* An I/O queue that is not authenticated keeps no association alive. */
		if (controller && !queue->qid && !note_traffic(controller, now))
			return refuse_expired(r);
		return check_sequence(r);
	}
	if (UNLIKELY(!note_traffic(controller, now)))
		return refuse_expired(r);
	return LIKELY(is_ready(queue, controller)) ? NVME_OK : check_sequence(r);
}

enum nvme_status parse_command(struct request *r)
{
	enum nvme_status status;

	if (!parse_has_sgl(r))
		return NVME_INVALID_FIELD | NVME_DNR;
	status = sgl_parse(&r->sqe.sgl, r->received, &r->sgl);
	if (status == NVME_OK)
		status = check_access(r);
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
