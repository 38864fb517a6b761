/* SPDX-License-Identifier: BSD-3-Clause */
/* See request_turn.h. This file has what guards call of the engine (struct guard_ops), and what
 * commands call of guards. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "target/engine/record/controller.h"
#include "target/engine/poller/poller.h"
#include "target/engine/queue/queue.h"
#include "target/engine/request/request.h"
#include "target/engine/request/request_abort.h"
#include "target/engine/request/request_run.h"
#include "target/engine/request/request_turn.h"
#include "target/engine/request/stall.h"
#include "target/export/guard/guard_adopt.h"
#include "target/export/guard/guard_state.h"

enum {
	COMPLAINTS_BURST = 5,
};

static struct queue *queue_of(struct guard_client *client)
{
	return container_of(client, struct queue, guard_client);
}

/* ---- parked commands ------------------------------------------------------------------------ */

static void on_free(struct pass *pass)
{
	struct request *r = request_of_pass(pass);

	request_run(r, (enum request_state)r->parked_at);
}

static bool give_up(struct pass *pass)
{
	struct request *r = request_of_pass(pass);

	return r->abort_status && request_abort_now(r);
}

void request_preempt(struct pass *pass)
{
	struct request *r = request_of_pass(pass);

	if (r->turns != TURN_GIVEN)
		r->abort_status = NVME_ABORTED_PREEMPT | NVME_DNR;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* The status of a command that must not run although it has the turn; NVME_OK if it may run. */
static enum nvme_status too_late(const struct request *r)
{
	if (r->abort_status)
		return r->abort_status;
	if (queue_is_dying(r->queue) ||
	    !atomic_load_explicit(&r->queue->controller->is_ready, memory_order_acquire))
		return NVME_ABORTED_SQ_DELETION;
	return NVME_OK;
}

static void on_turn(struct pass *pass)
{
	struct request *r = request_of_pass(pass);
	enum nvme_status status = too_late(r);

	if (status != NVME_OK && r->turns != TURN_GIVEN) {
		request_finish_turn(r, status);
		return;
	}
	r->turns = TURN_GIVEN;
	r->on_turn(r);
}

enum request_state request_take_turn(struct request *r, void (*on_turn_of)(struct request *r))
{
	r->on_turn = on_turn_of;
	guard_take_turn(&r->pass);
	return REQUEST_TURN;
}

static bool may_complain(const struct request *r)
{
	return log_limit_pass(&r->queue->poller->complaints, COMPLAINTS_BURST);
}

static void on_saved(struct pass *pass, int error)
{
	struct request *r = request_of_pass(pass);

	if (error == -ECANCELED) { /* another rblkd has changed it: from the start */
		r->on_turn(r);
		return;
	}
	if (error < 0 && may_complain(r))
		log_err_about(
			LOG_ABOUT(.subsystem = r->queue->controller->subnqn, .nsid = r->ns->nsid),
			"namespace %u: its state cannot be kept in %s: %s: the command that changes it is refused",
			r->ns->nsid, pass->guard->store->place, record_strerror(error));
	r->on_saved(r, error);
}

void request_save(struct request *r, bool is_skipped,
		  void (*on_saved_of)(struct request *r, int error))
{
	r->on_saved = on_saved_of;
	guard_save(&r->pass, is_skipped, on_saved);
}

static void on_fresh(struct pass *pass, int error)
{
	struct request *r = request_of_pass(pass);
	enum nvme_status status = error < 0 ? NVME_INTERNAL_ERROR : too_late(r);

	if (error < 0 && may_complain(r))
		log_err_about(
			LOG_ABOUT(.subsystem = r->queue->controller->subnqn, .nsid = r->ns->nsid),
			"namespace %u: its state cannot be read in %s: %s: the command that needs it is refused",
			r->ns->nsid, pass->guard->store->place, record_strerror(error));
	if (status == NVME_OK)
		r->on_fresh(r);
	else
		request_finish_turn(r, status);
}

void request_refresh(struct request *r, void (*on_fresh_of)(struct request *r))
{
	r->on_fresh = on_fresh_of;
	guard_refresh(&r->pass, on_fresh);
}

void request_finish_turn(struct request *r, enum nvme_status status)
{
	guard_end_turn(&r->pass);
	if (status == NVME_OK && r->after_turn)
		r->after_turn(r);
	else
		request_run(r, request_end(r, status));
}

/* ---- the queue as a client of guards -------------------------------------------------------- */

static const uint8_t *hostid(struct guard_client *client)
{
	return queue_of(client)->controller->hostid;
}

static unsigned n_pollers(struct guard_client *client)
{
	return queue_of(client)->target->n_pollers;
}

static struct loop *loop_of(struct guard_client *client, unsigned poller)
{
	return &queue_of(client)->target->pollers[poller].loop;
}

void turn_on_blocked(struct target *target, unsigned index, bool is_blocked)
{
	struct poller *poller = &target->pollers[index];

	if (!is_blocked) {
		check(poller->n_visits > 0);
		poller->n_visits--;
		return;
	}
	poller->n_visits++;
	stall_watch(poller);
}

static void on_blocked(struct guard_client *client, unsigned index, bool is_blocked)
{
	turn_on_blocked(queue_of(client)->target, index, is_blocked);
}

void request_turn_init(struct queue *queue)
{
	static const struct guard_ops ops = {
		.on_turn = on_turn,
		.on_free = on_free,
		.give_up = give_up,
		.hostid = hostid,
		.n_pollers = n_pollers,
		.loop_of = loop_of,
		.on_blocked = on_blocked,
	};

	queue->guard_client = (struct guard_client){
		.ops = &ops,
		.poller = queue->poller->index,
		.loop = &queue->poller->loop,
		.backends = queue->poller->backends,
	};
}
