/* SPDX-License-Identifier: BSD-3-Clause */
/* See request_resume.h. */
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue_state.h"
#include "target/engine/request/request_buffer.h"
#include "target/engine/request/request_resume.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/response.h"
#include "target/engine/request/throttle.h"

/* ---- buffers -------------------------------------------------------------------------------- */

/* Whether the first waiter got its buffer and left the line. Otherwise the next queue has its turn,
 * unless the arena owes this waiter the next buffer. */
static bool resume_first(struct arena *arena)
{
	struct request *r = request_first_waiter(arena);
	enum buffer_result result = request_take_buffer(r);

	if (result == BUFFER_NEVER) {
		fair_remove(&r->turn);
		request_run(r, request_no_buffer(r));
		return true;
	}
	arena->is_exhausted = result == BUFFER_NONE && !r->may_be_passed;
	if (arena->is_exhausted)
		return false;
	fair_rotate(&arena->waiters);
	if (result != BUFFER_TAKEN)
		return false;
	fair_remove(&r->turn);
	request_run(r, REQUEST_TAKE_BUFFER);
	return true;
}

/* One buffer for each queue in each round, until a round gives none. */
static void resume_waiters(struct arena *arena)
{
	bool has_progress = true;

	arena->is_exhausted = false;
	while (has_progress && !arena->is_exhausted) {
		unsigned n = fair_n_flows(&arena->waiters);

		has_progress = false;
		while (n-- && !arena->is_exhausted && !fair_is_empty(&arena->waiters))
			has_progress |= resume_first(arena);
	}
}

static void on_buffers(struct loop_call *call)
{
	struct poller *poller = container_of(call, struct poller, resume);

	resume_waiters(&poller->admin);
	resume_waiters(&poller->data);
}

/* ---- rates ---------------------------------------------------------------------------------- */

static void on_rates(struct loop_timer *timer)
{
	struct poller *poller = container_of(timer, struct poller, throttle);
	struct list lines;
	struct request *r;

	throttle_take_lines(poller, &lines);
	while ((r = throttle_next(poller, &lines)))
		request_run(r, REQUEST_TAKE_BUFFER);
}

void request_resume_init(struct poller *poller)
{
	list_init(&poller->throttled);
	poller->resume.run = on_buffers;
	poller->throttle.on_expiry = on_rates;
}

/* ---- slots and READ credits ----------------------------------------------------------------- */

static void resume(struct queue *queue)
{
	struct list *node;

	queue->credit_ns = queue->poller->loop.now_ns;
	queue->is_resuming = true;
	while (!list_is_empty(&queue->slot_waiters)) {
		struct request *r = list_entry(queue->slot_waiters.next, struct request, wait);

		if (qp_n_free(&queue->qp) < response_n_slots(r))
			break;
		list_remove(&r->wait);
		request_run(r, REQUEST_RESPOND);
	}
	while (list_is_empty(&queue->slot_waiters) && qp_n_free(&queue->qp) &&
	       qp_has_read_credit(&queue->qp) && (node = list_take_first(&queue->read_waiters)))
		request_run(list_entry(node, struct request, wait), REQUEST_READ_DATA);
	queue->is_resuming = false;
	if (list_is_empty(&queue->slot_waiters))
		list_remove(&queue->short_node);
}

void request_on_credit(struct qp *qp)
{
	struct queue *queue = qp->context;

	resume(queue);
	if (queue->state == QUEUE_FINISHING || queue->state == QUEUE_PARTING) {
		queue->n_busy++;
		queue_done_one(queue);
	}
}
