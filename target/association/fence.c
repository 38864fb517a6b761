/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fence between two associations of one host. Control thread, except where noted.
 *
 * A host whose connection died sends its unanswered writes again on a new one. If rblkd still had
 * the old write and it reached the disk later, it would undo what the host has written since (SPDK
 * issue 3593). So the Connect of a new admin queue is held
 *
 * - while a queue of the same host and subsystem is dying: such queues start nothing more, and are
 *   gone when their backend I/O has returned;
 * - while an association of that host that seems alive has outstanding writes from before the
 *   Connect. If the link was cut, the host's disconnect is lost, and rblkd may have nothing under
 *   way to the host: then it notices the death much later, or never without a KATO. Meanwhile a
 *   write that waits for a rate or a slow disk does not need the host.
 *
 * While another rblkd still has the stores, which it is about to give to this one, each Connect is
 * held: that one has the writes of all older associations.
 *
 * After fencing.quiesce the Connect fails without DNR, so that the host retries later.
 *
 * Overdue associations expire before a Connect is examined, because rblkd may have been stopped
 * meanwhile.
 *
 * No association is killed for a new one, because hosts have several for good reasons: a path to
 * each portal, or two to one (another host address or interface, duplicate_connect, SPDK). By their
 * names these look the same as a dead one. The delay of such a host is small: most of its older
 * writes end within milliseconds, and later ones do not count.
 *
 * If an older write hangs, the association can still show that it is alive: a command that arrives
 * SAYS_TICKS after the Connect was not sent before it. A host must take a connection down before it
 * sends again what was on it. Then no more commands arrive there, and what is still in the network
 * is less than a second old. If the machine pauses, the ticks of this program are late, too; so
 * every poller has a whole tick for what arrived before the pause.
 *
 * A host that has not authenticated although it must delays no Connect: rblkd has no writes of it.
 *
 * Only pollers know the outstanding writes of live queues. Control queries all pollers, in rounds,
 * as long as it holds a Connect. In the first ROUNDS_BEFORE rounds the pollers take what arrived
 * before the Connect from their completion queues. The Connect then waits for the writes that are
 * outstanding.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/ticks.h"
#include "target/association/connection_impl.h"
#include "target/association/controller.h"
#include "target/association/fence.h"
#include "target/engine/record/portal.h"
#include "target/engine/request/request.h"
#include "transport/wire/strings.h"

enum {
	LOOK_MS = 5,
	TICK_MS = 1000,
	SAYS_TICKS = 3, /* the first may have begun before the Connect; a whole one; the next */
	ROUNDS_BEFORE = 2,
	REFUSALS_BURST = 5,
};

static const uint64_t no_write = UINT64_MAX;

struct fence_ask {
	struct loop_msg msg;
	struct fence *fence;
	struct poller *poller;
};

struct fence {
	/* Thread: control */
	struct target *target;
	void (*on_release)(struct connect_op *op);
	struct loop_timer look, tick;
	uint64_t n_ticks;
	uint64_t n_begun; /* rounds */
	unsigned n_asked; /* pollers that have not answered */
	struct fence_ask asks[POLLERS_MAX];
};

/* ---- poller -------------------------------------------------------------------------------- */

/* A request that waits for a slot may wait forever, but does not touch the medium any more. */
static bool may_still_write(const struct request *r)
{
	return r->state != REQUEST_FREE && r->state != REQUEST_WAIT_SLOT &&
	       !nvme_is_c2h(r->sqe.opcode);
}

static uint64_t find_oldest_write(const struct queue *queue)
{
	uint64_t oldest = no_write;

	for (unsigned i = 0; i < queue->n_requests; i++)
		if (may_still_write(&queue->requests[i]))
			oldest = MIN(oldest, queue->requests[i].timing.started);
	return oldest;
}

static void on_answer(struct loop_msg *msg);

static void on_question(struct loop_msg *msg)
{
	struct fence_ask *ask = container_of(msg, struct fence_ask, msg);
	struct fence_question *question;

	list_for_each (node, &ask->poller->queues) {
		struct queue *queue = list_entry(node, struct queue, poller_node);

		question = &queue->connection->question;
		if (!atomic_load(&question->is_asked))
			continue;
		atomic_store(&question->oldest_write, find_oldest_write(queue));
		atomic_store(&question->is_asked, false);
	}
	ask->msg.run = on_answer;
	loop_send(&ask->fence->target->loop, &ask->msg);
}

/* ---- the associations that a Connect waits for --------------------------------------------- */

static bool is_same_host(const struct controller *controller, const struct connect_op *op)
{
	return !controller->is_discovery && controller_state(controller) != CONTROLLER_UNPROVEN &&
	       !strcmp(controller->subnqn, op->subnqn) &&
	       !strcmp(controller->hostnqn, op->hostnqn) &&
	       !memcmp(controller->hostid, op->hostid, sizeof(op->hostid));
}

/* A Connect does not wait for queues that a defect has stranded. */
static bool has_dying_queue(const struct controller *controller)
{
	unsigned n_left = 0;

	list_for_each (node, &controller->connections) {
		const struct connection *c = list_entry(node, struct connection, member_node);

		if (c->state == CONNECTION_STRANDED)
			continue;
		if (connection_is_dying(c) && connection_is_admitted(c))
			return true;
		n_left++;
	}
	return n_left && controller_state(controller) == CONTROLLER_DYING;
}

static bool has_older_write(const struct controller *controller, const struct connect_op *op)
{
	list_for_each (node, &controller->connections) {
		const struct connection *c = list_entry(node, struct connection, member_node);

		if (c->queue->qid != 0 && connection_is_admitted(c) &&
		    c->state != CONNECTION_STRANDED &&
		    atomic_load(&c->question.oldest_write) <= op->since)
			return true;
	}
	return false;
}

/* For an association that is not known to be dying. */
static bool is_in_the_way(const struct controller *controller, const struct connect_op *op)
{
	if (!atomic_load(&controller->n_io) || controller_state(controller) == CONTROLLER_DYING ||
	    (op->waits_for != FENCE_NOTHING && controller->heard.tick >= op->tick + SAYS_TICKS))
		return false;
	return op->n_rounds <= ROUNDS_BEFORE || has_older_write(controller, op);
}

static void end_expired(const struct connect_op *op)
{
	list_for_each_safe (node, &op->connection->target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (is_same_host(controller, op))
			controller_expire(controller);
	}
}

static enum fence_wait find_wait(const struct connect_op *op)
{
	enum fence_wait wait = FENCE_NOTHING;

	if (op->connection->target->life == TARGET_STANDING_BY)
		return FENCE_STORES;
	list_for_each (node, &op->connection->target->controllers) {
		const struct controller *controller = list_entry(node, struct controller, node);

		if (!is_same_host(controller, op))
			continue;
		if (has_dying_queue(controller))
			wait = FENCE_QUEUES;
		else if (is_in_the_way(controller, op))
			return FENCE_WRITES;
	}
	return wait;
}

/* ---- rounds -------------------------------------------------------------------------------- */

static struct connect_op *op_at(struct list *node)
{
	return list_entry(node, struct connect_op, node);
}

static void hear(struct controller *controller, uint64_t tick)
{
	uint64_t n = 0;

	list_for_each (node, &controller->connections) {
		const struct connection *c = list_entry(node, struct connection, member_node);

		if (connection_is_admitted(c))
			n += counter_get(&c->queue->counters.n_commands);
	}
	if (n > controller->heard.n_commands)
		controller->heard.tick = tick;
	controller->heard.n_commands = n; /* fewer after a queue was freed */
}

static void on_tick(struct loop_timer *timer)
{
	struct fence *fence = container_of(timer, struct fence, tick);
	struct target *target = fence->target;

	fence->n_ticks++;
	list_for_each (node, &target->controllers) {
		hear(list_entry(node, struct controller, node), fence->n_ticks);
	}
	if (!list_is_empty(&target->held_connects))
		loop_timer_start(&target->loop, timer, TICK_MS * NSEC_PER_MSEC);
}

static void mark(const struct connect_op *op)
{
	list_for_each (node, &op->connection->target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (!is_same_host(controller, op))
			continue;
		list_for_each (member, &controller->connections) {
			struct connection *c = list_entry(member, struct connection, member_node);

			atomic_store(&c->question.is_asked, c->queue->qid != 0);
		}
	}
}

static void begin_round(struct fence *fence)
{
	struct target *target = fence->target;

	if (fence->n_asked || list_is_empty(&target->held_connects))
		return;
	loop_timer_stop(&fence->look);
	list_for_each (node, &target->held_connects) {
		mark(op_at(node));
	}
	fence->n_begun++;
	fence->n_asked = target->n_pollers;
	for (unsigned i = 0; i < target->n_pollers; i++) {
		fence->asks[i].poller = &target->pollers[i];
		fence->asks[i].msg.run = on_question;
		loop_send(&target->pollers[i].loop, &fence->asks[i].msg);
	}
}

/* Plans the next round if a Connect needs one: at once during its first rounds. */
static void plan(struct fence *fence)
{
	bool must_ask = false, is_hurried = false;

	list_for_each (node, &fence->target->held_connects) {
		const struct connect_op *op = op_at(node);

		must_ask |= op->waits_for == FENCE_WRITES;
		is_hurried |= op->waits_for == FENCE_WRITES && op->n_rounds <= ROUNDS_BEFORE;
	}
	if (is_hurried)
		begin_round(fence);
	else if (must_ask && !fence->n_asked && !loop_timer_is_running(&fence->look))
		loop_timer_start(&fence->target->loop, &fence->look, LOOK_MS * NSEC_PER_MSEC);
}

static void say_it_waits(const struct connect_op *op)
{
	if (log_limit_pass(&op->connection->target->refusals, REFUSALS_BURST))
		log_info_about(
			CONNECT_ABOUT(op),
			"host %s: connecting to %s (%s) waits for writes of its older association",
			hostnqn_label(op->hostnqn), op->subnqn, op->connection->remote);
}

/* All pollers have answered. */
static void end_round(struct fence *fence)
{
	list_for_each (node, &fence->target->held_connects) {
		struct connect_op *op = op_at(node);

		if (op->held_in == fence->n_begun)
			continue; /* held after the round began */
		if (++op->n_rounds == ROUNDS_BEFORE)
			op->since = ticks_now();
	}
	fence_check(fence->target);
	list_for_each (node, &fence->target->held_connects) {
		const struct connect_op *op = op_at(node);

		if (op->n_rounds == ROUNDS_BEFORE + 1 && op->waits_for == FENCE_WRITES)
			say_it_waits(op);
	}
}

static void on_answer(struct loop_msg *msg)
{
	struct fence *fence = container_of(msg, struct fence_ask, msg)->fence;

	check(fence->n_asked > 0);
	if (--fence->n_asked == 0)
		end_round(fence);
}

static void on_look(struct loop_timer *timer)
{
	begin_round(container_of(timer, struct fence, look));
}

struct fence *fence_new(struct target *target, void (*on_release)(struct connect_op *op))
{
	struct fence *fence = calloc(1, sizeof(*fence));

	if (!fence)
		return NULL;
	fence->target = target;
	fence->on_release = on_release;
	fence->look.on_expiry = on_look;
	fence->tick.on_expiry = on_tick;
	for (unsigned i = 0; i < POLLERS_MAX; i++)
		fence->asks[i].fence = fence;
	return fence;
}

void fence_free(struct fence *fence)
{
	if (!fence)
		return;
	check(list_is_empty(&fence->target->held_connects));
	loop_timer_stop(&fence->look);
	loop_timer_stop(&fence->tick);
	free(fence);
}

/* ---- holding a Connect --------------------------------------------------------------------- */

static void release(struct connect_op *op, enum nvme_status status)
{
	op->waits_for = FENCE_NOTHING;
	list_remove(&op->node);
	loop_timer_stop(&op->deadline);
	op->status = status;
	op->connection->target->fence->on_release(op);
}

static void on_deadline(struct loop_timer *timer)
{
	struct connect_op *op = container_of(timer, struct connect_op, deadline);

	log_warn_about(CONNECT_ABOUT(op),
		       "host %s: old I/O to %s does not finish; connecting must wait", op->hostnqn,
		       op->subnqn);
	release(op, NVME_CONNECT_BUSY);
}

bool fence_hold(struct connect_op *op)
{
	struct fence *fence = op->connection->target->fence;

	check(op->waits_for == FENCE_NOTHING);
	op->n_rounds = 0;
	end_expired(op);
	op->waits_for = find_wait(op);
	if (op->waits_for == FENCE_NOTHING)
		return false;
	op->held_in = fence->n_begun;
	op->tick = fence->n_ticks;
	op->deadline.on_expiry = on_deadline;
	/* The next step is rblkd's, so the host's time limit stops. */
	loop_timer_stop(&op->connection->timer);
	list_add_tail(&fence->target->held_connects, &op->node);
	loop_timer_start(&fence->target->loop, &op->deadline, fence->target->quiesce_ns);
	if (!loop_timer_is_running(&fence->tick))
		loop_timer_start(&fence->target->loop, &fence->tick, TICK_MS * NSEC_PER_MSEC);
	plan(fence);
	return true;
}

void fence_check(struct target *target)
{
	list_for_each_safe (node, &target->held_connects) {
		struct connect_op *op = op_at(node);

		op->waits_for = find_wait(op);
		if (op->waits_for == FENCE_NOTHING)
			release(op, NVME_OK);
	}
	plan(target->fence);
}

void fence_cancel(struct connection *c)
{
	struct connect_op *op = &c->connect;

	if (op->waits_for != FENCE_NOTHING)
		release(op, NVME_ABORTED_SQ_DELETION);
}
