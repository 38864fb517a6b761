/* SPDX-License-Identifier: BSD-3-Clause */
/* See load.h. Nothing is counted for it on the data path: it looks at each request and response. */
#include "base/bits.h"
#include "target/engine/request/load.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/response.h"

void load_measure(const struct queue *queue, struct load *ret_load)
{
	uint64_t now = ticks_now(), now_ns = queue->poller->loop.now_ns;

	*ret_load = (struct load){.buffer_bytes = queue->buffer_bytes};
	for (unsigned i = 0; i < queue->n_requests; i++) {
		const struct request *r = &queue->requests[i];

		if (r->state == REQUEST_FREE || r->state == REQUEST_HELD)
			continue;
		ret_load->n_commands++;
		ret_load->oldest_ns = MAX(ret_load->oldest_ns,
					  ticks_to_ns_long(now - r->timing.started));
	}
	for (unsigned i = 0; i < queue->n_responses; i++) {
		uint64_t since_ns = queue->responses[i].sending_ns;

		if (since_ns && since_ns < now_ns)
			ret_load->takes_no_ns = MAX(ret_load->takes_no_ns, now_ns - since_ns);
	}
}
