/* SPDX-License-Identifier: BSD-3-Clause */
/* See request_buffer.h. */
#include "base/bits.h"
#include "target/engine/record/about.h"
#include "target/engine/record/controller.h"
#include "target/engine/record/host.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/receives.h"
#include "target/engine/request/request_buffer.h"
#include "transport/wire/strings.h"

/* The first buffer of a host is never beyond its limit, whatever its size. Neither is the buffer
 * for data that came in a scarce receive. */
static bool is_beyond_host(struct request *r, struct host_poller *host, uint32_t n_bytes)
{
	size_t most = atomic_load_explicit(&r->queue->target->bytes_per_host, memory_order_relaxed);

	if (!host->data_bytes || host->data_bytes + n_bytes <= most || receive_is_scarce(r))
		return false;
	if (!host->is_held_said)
		log_info_about(
			CONTROLLER_ABOUT(r->queue->controller),
			"host %s: its transfers wait for one another, at %zu bytes: raise limits.bytes_per_host",
			hostnqn_label(r->queue->controller->hostnqn), most);
	host->is_held_said = true;
	return true;
}

/* noinline: its array must not be on the stack of request_run, which has no use for it. */
NOINLINE enum buffer_result request_take_buffer(struct request *r)
{
	struct queue *queue = r->queue;
	struct arena *arena = request_arena(r);
	unsigned i = queue->poller->index;
	size_t *held[BUFFER_HOLDERS] = {[HOLDER_QUEUE] = &queue->buffer_bytes};
	uint32_t n_bytes = r->n_buffer ? r->n_buffer : r->length;

	if (r->ns)
		held[HOLDER_NAMESPACE] = &r->ns->counters[i].buffer_bytes;
	if (queue->host) {
		struct host_poller *host = &queue->host->pollers[i];

		held[HOLDER_HOST] = arena == &queue->poller->admin ? &host->admin_bytes
								   : &host->data_bytes;
		if (arena == &queue->poller->data && is_beyond_host(r, host, n_bytes))
			return BUFFER_OVER_SHARE;
	}
	return buffer_take_share(
		arena, n_bytes, held,
		atomic_load_explicit(&queue->target->buffers_per_host, memory_order_relaxed),
		&r->buffer);
}

enum request_state request_no_buffer(struct request *r)
{
	queue_break(r->queue, "opcode %02x needs a buffer of %u bytes, which there never is",
		    r->sqe.opcode, r->n_buffer ? r->n_buffer : r->length);
	return request_end(r, NVME_INTERNAL_ERROR | NVME_DNR);
}
