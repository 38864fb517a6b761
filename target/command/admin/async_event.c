/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event completes the oldest held request, or stays pending until a request comes. A reported
 * event is masked until the host reads its log page (Base 2.0, 5.2): a host that does not read
 * gets one report.
 */
#include "base/bits.h"
#include "base/check.h"
#include "target/command/admin/async_event.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/engine/request/request_run.h"

static const struct {
	enum controller_event event;
	uint32_t mask;	 /* bit of feature 0Bh */
	uint32_t result; /* dword 0 */
} events[] = {
	/* First, and never masked: for the host all others are over with it. */
	{EVENT_MOVING, 0, NVME_AER_PERSISTENT_ERROR},
	{EVENT_NS_CHANGED, NVME_OAES_NS_ATTR, NVME_AER_NS_CHANGED},
	{EVENT_DISCOVERY_CHANGED, NVME_OAES_DISCOVERY, NVME_AER_DISCOVERY_CHANGED},
	{EVENT_ANA_CHANGED, NVME_OAES_ANA, NVME_AER_ANA_CHANGED},
	{EVENT_CROSS_RESET, NVME_OAES_CROSS_RESET, NVME_AER_CROSS_RESET},
	{EVENT_LOST_HOST, NVME_OAES_LOST_HOST, NVME_AER_LOST_HOST},
	/* Feature 82h masks it earlier, before the notice is raised. */
	{EVENT_RESERVATION, 0, NVME_AER_RESERVATION},
};

static struct request *take(struct controller *controller)
{
	struct list *node = list_take_first(&controller->aers);
	struct request *r;

	if (!node)
		return NULL;
	r = list_entry(node, struct request, wait);
	controller->n_aers--;
	r->queue->n_held--;
	return r;
}

static void tell(struct controller *controller)
{
	for (unsigned i = 0; i < ARRAY_LEN(events); i++) {
		struct request *r;

		if (!(controller->pending & ~controller->masked & events[i].event) ||
		    (events[i].mask && !(controller->event_mask & events[i].mask)))
			continue;
		r = take(controller);
		if (!r)
			return;
		controller->pending &= ~(unsigned)events[i].event;
		controller->masked |= events[i].event;
		r->result = events[i].result;
		if (events[i].event == EVENT_MOVING)
			atomic_store(&controller->notice.is_leaving, true);
		request_run(r, REQUEST_RESPOND);
	}
}

static enum request_state execute(struct request *r)
{
	struct controller *controller = r->queue->controller;

	if (controller->n_aers == CONTROLLER_AERS)
		return request_end(r, NVME_AER_LIMIT | NVME_DNR);
	atomic_store(&controller->notice.is_leaving, false);
	list_add_tail(&controller->aers, &r->wait);
	controller->n_aers++;
	r->queue->n_held++;
	/* This step has not held the request yet, so it completes on the next turn of the loop. */
	if (controller->pending & ~controller->masked)
		loop_defer(&controller->poller->loop, &controller->tell);
	return REQUEST_HELD;
}

static void on_tell(struct loop_call *call)
{
	tell(container_of(call, struct controller, tell));
}

void async_event_raise(struct controller *controller, enum controller_event event)
{
	if (!controller->admin_queue)
		return;
	controller->pending |= event;
	controller->tell.run = on_tell;
	loop_defer(&controller->poller->loop, &controller->tell);
}

void async_event_unmask(struct controller *controller, enum controller_event event)
{
	controller->masked &= ~(unsigned)event;
	if (controller->pending)
		loop_defer(&controller->poller->loop, &controller->tell);
}

void async_event_ns_changed(struct controller *controller, uint32_t nsid)
{
	check(nsid <= NSID_MAX);
	controller->changed_ns[nsid / 64] |= 1ULL << nsid % 64;
	async_event_raise(controller, EVENT_NS_CHANGED);
}

void async_event_end(struct request *r, enum nvme_status status)
{
	list_remove(&r->wait);
	r->queue->controller->n_aers--;
	r->queue->n_held--;
	request_run(r, request_end(r, status));
}

void async_event_end_all(struct controller *controller, enum nvme_status status)
{
	struct request *r;

	loop_call_cancel(&controller->tell);
	while ((r = take(controller))) {
		r->status = status;
		request_run(r, queue_is_dying(r->queue) ? REQUEST_FINISH : REQUEST_RESPOND);
	}
}

const struct nvme_command async_event_command = {
	.opcode = NVME_ADMIN_ASYNC_EVENT_REQUEST,
	.name = "Asynchronous Event Request",
	.parse = command_parse_nothing,
	.execute = execute,
	.effects = NVME_EFFECT_CSUPP,
};
