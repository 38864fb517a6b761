/* SPDX-License-Identifier: BSD-3-Clause */
#include "target/engine/request/pair.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_abort.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/throttle.h"
#include "target/export/guard/guard.h"

bool request_abort_now(struct request *r)
{
	struct queue *queue = r->queue;

	switch (r->state) {
	case REQUEST_THROTTLED:
		throttle_leave(r);
		break;
	case REQUEST_WAIT_BUFFER:
		fair_remove(&r->turn);
		break;
	case REQUEST_WAIT_READ:
	case REQUEST_PARKED:
		if (r->pass.is_inside)
			return false;
		list_remove(&r->wait);
		list_remove(&r->pass.wait);
		break;
	case REQUEST_PAIR:
		if (r->pair)
			return false; /* its second ends it */
		queue->first = NULL;
		queue->pair = PAIR_FAILED;
		break;
	default:
		return false;
	}
	request_run(r, request_end(r, r->abort_status));
	return true;
}

void request_abandon_lost(struct queue *queue)
{
	for (unsigned i = 0; i < queue->n_requests; i++) {
		struct request *r = &queue->requests[i];

		if (!r->io.is_out)
			pass_abandon(&r->pass);
	}
}

/* The request checks abort_status again before it starts. */
static bool can_find_out(const struct request *r)
{
	return r->pass.guard && !r->pass.is_inside && r->turns != TURN_GIVEN &&
	       (r->state == REQUEST_READING || r->state == REQUEST_TURN);
}

static bool stop(struct request *r, enum nvme_status status)
{
	r->abort_status = status;
	if (request_abort_now(r) || can_find_out(r))
		return true;
	r->abort_status = NVME_OK;
	return false;
}

/* The second executes the pair, so the second must stop. Each half gets its own status. */
static bool stop_first(struct request *first, enum nvme_status status)
{
	enum nvme_status before = first->status;

	first->status = status;
	if (stop(first->pair, NVME_ABORTED_FAILED_FUSED | NVME_DNR))
		return true;
	first->status = before;
	return false;
}

bool request_abort(struct request *r, enum nvme_status status)
{
	bool is_paired_first = r->state == REQUEST_PAIR && r->pair;

	return is_paired_first ? stop_first(r, status) : stop(r, status);
}

void request_abort_waiting(struct queue *queue)
{
	list_remove(&queue->short_node);
	for (unsigned i = 0; i < queue->n_requests; i++) {
		struct request *r = &queue->requests[i];

		switch (r->state) {
		case REQUEST_THROTTLED:
			throttle_leave(r);
			request_run(r, REQUEST_FINISH);
			break;
		case REQUEST_WAIT_BUFFER:
			fair_remove(&r->turn);
			request_run(r, REQUEST_FINISH);
			break;
		case REQUEST_WAIT_READ:
		case REQUEST_WAIT_SLOT:
		case REQUEST_PARKED:
			list_remove(&r->wait);
			list_remove(&r->pass.wait);
			request_run(r, REQUEST_FINISH);
			break;
		case REQUEST_PAIR:
			if (!r->pair)
				request_run(r, REQUEST_FINISH);
			break;
		case REQUEST_FREE:
		case REQUEST_READING: /* the device */
		case REQUEST_BACKEND: /* the disk */
		case REQUEST_TURN:    /* the guard */
		case REQUEST_CONTROL: /* the control thread */
		case REQUEST_HELD:    /* controller_detach: each returns it */
		case REQUEST_PARSE:
		case REQUEST_TAKE_BUFFER:
		case REQUEST_READ_DATA:
		case REQUEST_EXECUTE:
		case REQUEST_RESPOND:
		case REQUEST_FINISH:
		case REQUEST_GONE:
			break;
		}
	}
}
