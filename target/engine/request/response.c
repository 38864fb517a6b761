/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Responses: a completion queue entry by SEND. Data goes before it by RDMA WRITE in the same chain;
 * a queue pair keeps their order, so the data arrives first. Runs on the queue's poller.
 *
 * Once the response is posted, the request is free for the host's next command, which may arrive
 * before the SEND completes. A struct response has what the device still reads. A queue has as
 * many of these as send-queue slots, so a free slot implies a free response. The SEND is signaled
 * only if it holds a resource (a buffer, a namespace's memory); otherwise it completes with a later
 * one.
 */
#include "base/bits.h"
#include "base/check.h"
#include "base/probe.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_namespace.h"
#include "target/engine/request/response.h"
#include "target/engine/request/response_stats.h"
#include "target/export/guard/guard.h"
#include "transport/qp_post.h"

static void put_free(struct response *response)
{
	response->next_free = response->queue->free_responses;
	response->queue->free_responses = response;
}

static uint16_t next_sqhd(struct queue *queue)
{
	queue->sqhd = queue->sqhd >= queue->sqsize ? 0 : (uint16_t)(queue->sqhd + 1);
	return queue->sqhd;
}

static void build_cqe(const struct request *r, struct nvme_cqe *cqe, uint16_t sqhd)
{
	*cqe = (struct nvme_cqe){
		.result = put_le64(r->result),
		.sqhd = put_le16(sqhd),
		.sqid = put_le16(r->queue->qid),
		.cid = r->sqe.cid,
		.status = put_nvme_status(r->status),
	};
}

/* Apart: few queues need it. */
static COLD void build_special(struct request *r, struct nvme_cqe *cqe)
{
	struct queue *queue = r->queue;
	unsigned answer = atomic_load_explicit(&queue->answer, memory_order_relaxed);

	static_assert(sizeof(r->sqe) == CAPTURE_REQUEST && sizeof(*cqe) == CAPTURE_ANSWER,
		      "a capture has whole entries");
	build_cqe(r, cqe, answer & QUEUE_NO_SQHD ? 0xffff : next_sqhd(queue));
	if (answer & QUEUE_CAPTURED)
		capture_add(&queue->poller->capture, &queue->stream, r->timing.started, ticks_now(),
			    &r->sqe, cqe);
}

static void free_sent(struct response *response)
{
	pass_end(&response->pass);
	namespace_give(response->counters);
	response->counters = NULL;
	whole_give_one(response->hold);
	response->hold = 0;
	response->sending_ns = 0;
	put_free(response);
}

/* Most reads of memory have nothing to give back here. noinline: on_send_done saves no
 * registers. */
static NOINLINE void give_back(struct response *response)
{
	if (response->timed_from)
		response_stats_sent(response);
	buffer_give(response->queue->poller, &response->buffer);
	pass_leave(&response->pass);
	if (whole_is_many(response->hold)) {
		whole_give(response->hold);
		response->hold = 0;
	}
	free_sent(response);
}

static void on_send_done(struct work *work, const struct completion *c)
{
	struct response *response = container_of(work, struct response, send_work);

	PROBE(rblkd, response_sent, response, response->queue, c->status);
	if (UNLIKELY(response->timed_from || response->buffer.data || response->pass.is_awaited ||
		     whole_is_many(response->hold)))
		give_back(response);
	else
		free_sent(response);
}

/* A response that was never used, in zeroed memory. */
static NOINLINE struct response *make_response(struct queue *queue)
{
	struct nvme_cqe *cqes = queue->cqes.data;
	unsigned i = queue->n_responses;
	struct response *response = &queue->responses[i];

	check(i < queue->n_slots);
	queue->n_responses++;
	response->queue = queue;
	response->cqe = cqes ? &cqes[i] : &response->inline_cqe;
	response->flags = cqes ? 0 : QP_INLINE;
	response->send_work.done = on_send_done;
	pass_init(&response->pass, &queue->guard_client, false);
	return response;
}

static struct response *take_free(struct queue *queue)
{
	struct response *response = queue->free_responses;

	if (!response)
		return make_response(queue);
	queue->free_responses = response->next_free;
	return response;
}

static void post_data(struct request *r, struct response *response)
{
	struct sge sge = {.addr = r->data, .length = r->length, .lkey = r->lkey};

	PROBE(rblkd, write_begin, r, response, sge.length);
	qp_write(&r->queue->qp, sge, r->sgl.address, r->sgl.key);
	if (r->buffer.data) {
		response->buffer = r->buffer;
		r->buffer = (struct buffer){0};
	}
	response->sending_ns = r->queue->poller->loop.now_ns;
	if (r->timing.is_staged && r->ns && r->sqe.opcode == NVME_IO_READ)
		response->timed_from = r->timing.mark;
	if (r->ns)
		response->counters = r->counters;
	r->ns = NULL;
	if (r->is_direct) {
		pass_move(&response->pass, &r->pass);
		response->hold = r->hold;
	} else {
		pass_end(&r->pass);
	}
}

static void post_cqe(struct request *r, struct response *response, bool has_data)
{
	struct queue *queue = r->queue;
	struct sge sge = {
		.addr = response->cqe, .length = sizeof(struct nvme_cqe), .lkey = queue->lkey};
	unsigned flags = response->flags;

	if (has_data || queue->state != QUEUE_SERVING)
		flags |= QP_SIGNALED;
	/* Any READ or WRITE with this key has completed, or precedes the SEND in the chain. */
	if (r->sgl.wants_invalidate && queue->pd->device->limits.has_send_invalidate)
		flags |= QP_INVALIDATE;
	qp_send(&queue->qp, &response->send_work, &sge, 1, flags, r->sgl.key);
}

void response_post(struct request *r, bool has_data)
{
	struct response *response = take_free(r->queue);

	response_stats_answered(r);
	if (UNLIKELY(atomic_load_explicit(&r->queue->answer, memory_order_relaxed)))
		build_special(r, response->cqe);
	else
		build_cqe(r, response->cqe, next_sqhd(r->queue));
	if (has_data)
		post_data(r, response);
	PROBE(rblkd, response_posted, r, response, r->queue, r->queue->qid, PROBE_LE16(r->sqe.cid),
	      r->status);
	post_cqe(r, response, has_data);
}
