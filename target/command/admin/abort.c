/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Abort: stops a command that waits in rblkd.
 *
 *   admin queue's poller --> control: which queue is it? --> its poller: stop it, if possible
 *                        <----------------------------------------------+
 *
 * A command that waits for a buffer, a READ, its turn or its other half ends with Command Abort
 * Requested, and so does an Asynchronous Event Request. A command whose data is being fetched ends
 * before it starts. A command that has begun on the medium, or is answered, continues, and dword 0
 * of the answer shows that it was not aborted.
 */
#include "base/check.h"
#include "target/command/admin/async_event.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/request/request_abort.h"
#include "target/engine/request/request_run.h"

static void on_answer(struct loop_msg *msg)
{
	struct request *r = container_of(msg, struct request, msg);

	r->queue->controller->n_aborts--;
	request_run(r, request_end(r, NVME_OK));
}

static void send_answer(struct request *r)
{
	r->msg.run = on_answer;
	loop_send(&r->queue->poller->loop, &r->msg);
}

/* ---- poller of the queue -------------------------------------------------------------------- */

static struct request *find(struct queue *queue, const struct request *abort)
{
	uint16_t cid = (uint16_t)(get_le32(abort->sqe.cdw10) >> 16);

	for (unsigned i = 0; i < queue->n_requests; i++) {
		struct request *r = &queue->requests[i];

		if (r != abort && r->state != REQUEST_FREE && get_le16(r->sqe.cid) == cid)
			return r;
	}
	return NULL;
}

static void stop(struct loop_msg *msg)
{
	struct request *abort = container_of(msg, struct request, msg);
	struct request *r = find(abort->abort_queue, abort);
	bool is_held = r && r->state == REQUEST_HELD;

	if (is_held)
		async_event_end(r, NVME_ABORTED_BY_REQUEST);
	if (is_held || (r && request_abort(r, NVME_ABORTED_BY_REQUEST)))
		abort->result = 0;
	send_answer(abort);
}

/* ---- control -------------------------------------------------------------------------------- */

static void find_queue(struct loop_msg *msg)
{
	struct request *r = container_of(msg, struct request, msg);
	const struct controller *controller = r->queue->controller;
	struct queue *queue = controller->find_queue(controller, (uint16_t)get_le32(r->sqe.cdw10));

	if (!queue) {
		send_answer(r);
		return;
	}
	/* This message reaches the queue's poller before control can free the queue. */
	r->abort_queue = queue;
	r->msg.run = stop;
	loop_send(&queue->poller->loop, &r->msg);
}

/* ---- poller of the admin queue -------------------------------------------------------------- */

static enum request_state execute(struct request *r)
{
	struct controller *controller = r->queue->controller;

	if (controller->n_aborts == CONTROLLER_ABORTS)
		return request_end(r, NVME_ABORT_LIMIT | NVME_DNR);
	controller->n_aborts++;
	r->result = 1; /* not aborted */
	r->msg.run = find_queue;
	loop_send(&controller->target->loop, &r->msg);
	return REQUEST_CONTROL;
}

static enum nvme_status parse(struct request *r)
{
	/* A discovery controller does not support Abort. */
	return r->queue->controller->is_discovery ? NVME_INVALID_OPCODE | NVME_DNR : NVME_OK;
}

const struct nvme_command abort_command = {
	.opcode = NVME_ADMIN_ABORT,
	.name = "Abort",
	.parse = parse,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
};
