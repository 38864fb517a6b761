/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guards: who may touch a namespace, and who must wait.
 *
 * An ordinary Read or Write pays for all of it with one load of the flags, one look at its poller's
 * own part, and a place in its poller's list of commands: no lock, no atomic write. It takes that
 * place when it first waits for something: before, within one turn of the loop, no visit comes.
 *
 *   pass_begin, pass_show --> guard_enter --> inside --> pass_leave, pass_end
 *                                  |  ^
 *                                  v  | who is alone there is done
 *                                 parked
 *
 * What changes rules (a reservation, write protection, bad blocks) or must be alone in a range
 * (Compare and Write) takes turns, one owner at a time:
 *
 *   guard_take_turn --> on_turn: publish --> guard_visit --> on_visited --> guard_end_turn
 *
 * A visit is one message to each poller. There the owner looks at each command and says for which it
 * waits; when those have left, the poller answers. Commands that enter after the message see what
 * was published before it; those that entered earlier are in the list. So nobody slips through, and
 * with the last answer no poller can hold what was published before: the old may be freed. Who is
 * alone also closes his range at each poller: what overlaps is parked until the turn ends.
 *
 * No circles: an owner waits only for commands that are inside, and those wait for nobody but their
 * backend. So who is inside leaves before he takes a turn.
 */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "target/export/bad_blocks.h"
#include "target/export/guard/guard.h"
#include "target/export/guard/reservation.h"
#include "target/engine/controller.h"
#include "target/engine/request_settle.h"

/* ---- commands come and go ------------------------------------------------------------------- */

/* One answer of this poller less; with the last one the visit is over. */
static void answer(struct guard *guard)
{
	struct request *owner = guard->owner;

	if (atomic_fetch_sub(&guard->n_pending, 1) == 1)
		loop_send(&owner->queue->poller->loop, &owner->msg);
}

static void stop_waiting(struct guard *guard, struct guard_local *local)
{
	check(local->n_awaited > 0);
	if (--local->n_awaited)
		return;
	if (local->poller)
		local->poller->n_visits--;
	local->poller = NULL;
	answer(guard);
}

void pass_init(struct pass *pass, struct queue *queue, struct request *request)
{
	pass->queue = queue;
	pass->request = request;
	list_init(&pass->node);
}

void pass_begin(struct pass *pass, struct guard *guard)
{
	check(!pass->guard);
	pass->guard = guard;
	pass->local = &guard->locals[pass->queue->poller->index];
	pass->slba = pass->n_blocks = 0;
	pass->access = ACCESS_NONE;
	pass->is_inside = pass->is_awaited = false;
}

void pass_show(struct pass *pass)
{
	if (pass->guard && list_is_empty(&pass->node))
		list_add_tail(&pass->local->passes, &pass->node);
}

static __attribute__((noinline)) void end_awaited(struct pass *pass)
{
	pass->is_awaited = false;
	stop_waiting(pass->guard, pass->local);
}

void pass_leave(struct pass *pass)
{
	if (!pass->guard)
		return;
	pass->is_inside = false;
	if (__builtin_expect(pass->is_awaited, 0))
		end_awaited(pass);
}

void pass_end(struct pass *pass)
{
	if (!pass->guard)
		return;
	pass_leave(pass);
	list_remove(&pass->node);
	pass->guard = NULL;
}

void pass_move(struct pass *to, struct pass *from)
{
	if (!from->guard)
		return;
	memcpy((char *)to + offsetof(struct pass, guard),
	       (char *)from + offsetof(struct pass, guard),
	       sizeof(*to) - offsetof(struct pass, guard));
	if (!list_is_empty(&from->node))
		list_remove(&from->node);
	list_add_tail(&to->local->passes, &to->node);
	from->guard = NULL;
}

static bool overlaps(const struct pass *pass, uint64_t slba, uint64_t n_blocks)
{
	/* The sums cannot overflow but where a range means everything. */
	if (pass->n_blocks == UINT64_MAX || n_blocks == UINT64_MAX)
		return pass->n_blocks && n_blocks;
	return pass->slba < slba + n_blocks && slba < pass->slba + pass->n_blocks;
}

bool guard_has_bad(const struct guard *guard, uint64_t slba, uint64_t n_blocks)
{
	const struct bad_blocks *bad = atomic_load_explicit(&guard->bad_blocks,
							    memory_order_acquire);

	return bad && bad_blocks_overlap(bad, slba, n_blocks);
}

enum nvme_status guard_check(const struct request *r)
{
	const struct pass *pass = &r->pass;
	const struct guard *guard = pass->guard;
	unsigned flags = guard_flags(guard);

	if (flags & GUARD_RESERVED &&
	    !reservation_allows(atomic_load_explicit(&guard->reservation, memory_order_acquire),
				pass->queue->controller->hostid, pass->access))
		return NVME_RESERVATION_CONFLICT | NVME_DNR;
	if (flags & GUARD_PROTECTED && pass->access == ACCESS_WRITE)
		return NVME_NS_WRITE_PROTECTED | NVME_DNR;
	if (flags & GUARD_BAD_BLOCKS && pass->access == ACCESS_READ &&
	    guard_has_bad(guard, pass->slba, pass->n_blocks))
		return NVME_UNRECOVERED_READ | NVME_DNR;
	return NVME_OK;
}

unsigned guard_enter(struct request *r)
{
	struct pass *pass = &r->pass;
	struct guard_local *local = pass->local;
	enum nvme_status status = r->abort_status ? r->abort_status : guard_check(r);

	if (status != NVME_OK)
		return request_settle(r, status);
	if (local->is_closed && overlaps(pass, pass->guard->slba, pass->guard->n_blocks)) {
		r->parked_at = r->state;
		list_add_tail(&local->parked, &r->wait);
		return REQUEST_PARKED;
	}
	pass->is_inside = true;
	return REQUEST_GONE;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* Why the command must not run although it is its turn; NVME_OK if it may. */
static enum nvme_status too_late(const struct request *r)
{
	if (r->abort_status)
		return r->abort_status;
	if (r->queue->is_dying ||
	    !atomic_load_explicit(&r->queue->controller->is_ready, memory_order_acquire))
		return NVME_ABORTED_SQ_DELETION;
	return NVME_OK;
}

static void on_turn(struct loop_msg *msg)
{
	struct request *r = container_of(msg, struct request, msg);
	enum nvme_status status = too_late(r);

	if (status != NVME_OK && !r->is_started) {
		guard_finish_turn(r, status);
		return;
	}
	r->is_started = true;
	r->on_turn(r);
}

/* Locked. */
static void give_turn(struct guard *guard)
{
	struct list *node = list_take_first(&guard->turns);

	guard->owner = node ? list_entry(node, struct request, wait) : NULL;
	if (!node)
		return;
	guard->owner->msg.run = on_turn;
	loop_send(&guard->owner->queue->poller->loop, &guard->owner->msg);
}

unsigned guard_take_turn(struct request *r, void (*on_turn_of)(struct request *r))
{
	struct guard *guard = r->pass.guard;

	pass_leave(&r->pass);
	r->on_turn = on_turn_of;
	pthread_mutex_lock(&guard->lock);
	list_add_tail(&guard->turns, &r->wait);
	if (!guard->owner)
		give_turn(guard);
	pthread_mutex_unlock(&guard->lock);
	return REQUEST_TURN;
}

void guard_end_turn(struct request *r)
{
	struct guard *guard = r->pass.guard;

	check(guard->owner == r);
	pthread_mutex_lock(&guard->lock);
	give_turn(guard);
	pthread_mutex_unlock(&guard->lock);
}

void guard_finish_turn(struct request *r, enum nvme_status status)
{
	guard_end_turn(r);
	if (status == NVME_OK && r->after_turn)
		r->after_turn(r);
	else
		request_run(r, request_end(r, status));
}

/* ---- visits --------------------------------------------------------------------------------- */

/* Those whom the owner has told to give up do so now, if they wait for something. */
static void abort_waiting(struct guard_local *local)
{
	bool has_aborted;

	do {
		has_aborted = false;
		list_for_each (node, &local->passes) {
			struct request *r = list_entry(node, struct pass, node)->request;

			/* It leaves the list, and a companion may with it: from the start. */
			if (r && r->abort_status && request_abort_now(r)) {
				has_aborted = true;
				break;
			}
		}
	} while (has_aborted);
}

static struct poller *poller_of(const struct guard *guard, const struct guard_local *local)
{
	return &guard->owner->queue->target->pollers[local - guard->locals];
}

static void on_visit(struct loop_msg *msg)
{
	struct guard_local *local = container_of(msg, struct guard_local, msg);
	struct guard *guard = local->guard;

	local->is_closed = guard->closes;
	local->n_awaited = 1; /* this visit itself */
	list_for_each (node, &local->passes) {
		struct pass *pass = list_entry(node, struct pass, node);

		if (!guard->visit(guard->owner, pass))
			continue;
		pass->is_awaited = true;
		local->n_awaited++;
	}
	abort_waiting(local);
	if (local->n_awaited > 1) {
		local->poller = poller_of(guard, local);
		local->poller->n_visits++;
		poller_watch_stall(local->poller);
	}
	stop_waiting(guard, local);
}

/* Those that were parked go on in their order; who comes later is behind them. */
static void on_open(struct loop_msg *msg)
{
	struct guard_local *local = container_of(msg, struct guard_local, msg);
	struct list parked, *node;

	local->is_closed = false;
	list_init(&parked);
	list_splice_tail(&parked, &local->parked);
	while ((node = list_take_first(&parked))) {
		struct request *r = list_entry(node, struct request, wait);

		request_run(r, (enum request_state)r->parked_at);
	}
	answer(local->guard);
}

static void on_all_answered(struct loop_msg *msg)
{
	struct request *owner = container_of(msg, struct request, msg);

	owner->pass.guard->on_visited(owner);
}

static void send_to_all(struct request *owner, void (*run)(struct loop_msg *msg),
			void (*on_visited)(struct request *r))
{
	struct guard *guard = owner->pass.guard;
	const struct target *target = owner->queue->target;

	check(guard->owner == owner);
	owner->msg.run = on_all_answered;
	guard->on_visited = on_visited;
	atomic_store(&guard->n_pending, target->n_pollers);
	for (unsigned i = 0; i < target->n_pollers; i++) {
		guard->locals[i].msg.run = run;
		loop_send(&target->pollers[i].loop, &guard->locals[i].msg);
	}
}

void guard_visit(struct request *r, guard_visit_fn *visit, void (*on_visited)(struct request *r))
{
	struct guard *guard = r->pass.guard;

	guard->closes = false;
	guard->visit = visit;
	send_to_all(r, on_visit, on_visited);
}

static bool is_in_the_way(const struct request *owner, struct pass *pass)
{
	const struct guard *guard = owner->pass.guard;

	return pass->is_inside && overlaps(pass, guard->slba, guard->n_blocks);
}

void guard_be_alone(struct request *r, void (*on_alone)(struct request *r))
{
	struct guard *guard = r->pass.guard;

	guard->slba = r->pass.slba;
	guard->n_blocks = r->pass.n_blocks;
	guard->closes = true;
	guard->visit = is_in_the_way;
	send_to_all(r, on_visit, on_alone);
}

void guard_open(struct request *r, void (*on_open_again)(struct request *r))
{
	send_to_all(r, on_open, on_open_again);
}
