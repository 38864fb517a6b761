/* SPDX-License-Identifier: BSD-3-Clause */
/* See queue_create.h. */
#include <sys/mman.h>

#include "base/check.h"
#include "target/engine/record/capsules.h"
#include "target/engine/record/command_table.h"
#include "target/engine/poller/poller.h"
#include "target/engine/poller/poller_device.h"
#include "target/engine/queue/queue.h"
#include "target/engine/queue/queue_control.h"
#include "target/engine/request/queue_create.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_abort.h"
#include "target/engine/request/request_resume.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/request_turn.h"
#include "target/engine/request/response.h"
#include "target/engine/queue/sink.h"
#include "target/engine/record/target.h"

enum {
	ADMIN_SPARE_RECV = 1,
	CACHE_LINE = 64,
};

static_assert(_Alignof(struct request) <= CACHE_LINE, "requests_offset");
static_assert(sizeof(struct request) % _Alignof(struct response) == 0, "they follow requests");

static size_t requests_offset(void)
{
	return align_up(sizeof(struct queue), CACHE_LINE);
}

/* A queue, its requests and its responses are one mapping of the largest size. The kernel provides
 * a page on first use, and most hosts send fewer commands at once than they may. */
static size_t mapping_bytes(unsigned n_entries)
{
	return requests_offset() + n_entries * sizeof(struct request) +
	       queue_send_depth(n_entries) * sizeof(struct response);
}

static struct queue *map_memory(unsigned n_entries)
{
	struct queue *queue = mmap(NULL, mapping_bytes(n_entries), PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (queue == MAP_FAILED)
		return NULL;
	queue->n_entries = n_entries;
	queue->n_slots = queue_send_depth(n_entries);
	queue->requests = (struct request *)((char *)queue + requests_offset());
	queue->responses = (struct response *)(queue->requests + n_entries);
	return queue;
}

/* Admin queues have receives of their own, so I/O can never starve them. */
int queue_make_qp(struct queue *queue, struct rdma_cm_id *id, unsigned max_reads)
{
	struct target *target = queue->target;
	bool is_shared = queue->qid != 0 && queue->pd->ring.n_max;
	struct qp_config config = {
		.cq = &queue->pd->cq,
		.shared_ring = is_shared ? &queue->pd->ring : NULL,
		.n_recv = queue->n_entries + ADMIN_SPARE_RECV,
		.recv_capsule_bytes = sizeof(struct nvme_sqe),
		.recv_data_bytes = (uint32_t)target->config->tuning.inline_data,
		.send_depth = queue->n_slots,
		.n_sges = 1,
		.inline_bytes = sizeof(struct nvme_cqe),
	};

	int r = sinks_open(queue);

	if (r == 0 && is_shared)
		r = poller_device_take_receives(queue->pd, queue->n_entries);
	if (r < 0)
		return r;
	config.domain = sinks_domain(queue);
	queue->n_shared = is_shared ? queue->n_entries : 0;
	r = qp_init(&queue->qp, id, &config);
	queue->qp.max_reads = max_reads;
	queue->qp.on_credit = request_on_credit;
	queue->qp.own_ring.on_recv = request_on_recv;
	return r;
}

static void init_requests(struct queue *queue)
{
	list_init(&queue->slot_waiters);
	list_init(&queue->read_waiters);
	list_init(&queue->short_node);
	queue->abort_waiting = request_abort_waiting;
	queue->abandon_lost = request_abandon_lost;
	request_turn_init(queue);
}

struct queue *queue_create(struct poller *poller, const struct device *device, uint16_t qid,
			   unsigned n_entries)
{
	struct queue *queue;

	check(n_entries && n_entries <= QUEUE_DEPTH_MAX);
	check(poller->devices[device->index].device == device);
	queue = map_memory(n_entries);
	if (!queue)
		return NULL;
	queue->target = poller->target;
	queue->poller = poller;
	queue->pd = &poller->devices[device->index];
	queue->qid = qid;
	queue->commands = command_table(qid ? COMMANDS_IO : COMMANDS_ADMIN);
	queue_init(queue);
	init_requests(queue);
	return queue;
}

void queue_destroy(struct queue *queue)
{
	check(queue->state == QUEUE_NEW || queue->state == QUEUE_OVER);
	sinks_close(queue);
	poller_device_give_receives(queue->pd, queue->n_shared);
	capsules_give(queue->target, queue->capsules);
	munmap(queue, mapping_bytes(queue->n_entries));
}
