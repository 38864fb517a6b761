/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Guards: which commands may touch a namespace now, and which must wait.
 *
 * An ordinary Read or Write pays for this with one load of the flags, one look at its poller's part
 * of the guard, and a place in its poller's list of commands: no lock, no atomic write. A command
 * takes that place when it first waits. Until then it runs within one turn of the loop, and a visit
 * arrives only between turns.
 *
 *   pass_begin, pass_show --> guard_enter --> inside --> pass_leave, pass_end
 *                                  |  ^
 *                                  v  | the owner of an exclusive range is done (on_free)
 *                                 parked
 *
 * Commands that change the rules (a reservation, write protection, bad blocks) or need a range
 * exclusively (Compare and Write) take turns. The command that has the turn is the owner:
 *
 *   guard_take_turn --> on_turn: publish --> guard_visit --> on_visited --> guard_end_turn
 *
 * A visit is one message to each poller. There the owner checks each command in the list, and
 * decides which ones it waits for. The poller answers when those have left. A command that enters
 * after the message obeys the new rules, which were published before; a command that entered
 * earlier is in the list. So no command escapes the visit. After the last answer no poller uses the
 * old rules, and the owner may free them. The visit of an exclusive owner also closes its range at
 * each poller: commands that overlap are parked until the turn ends.
 *
 * There is no deadlock: an owner waits only for admitted commands, and an admitted command waits
 * only for its backend. So a command leaves the namespace before it takes a turn.
 */
#include <stddef.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "target/export/bad_blocks.h"
#include "target/export/guard/aged.h"
#include "target/export/guard/guard.h"
#include "target/export/guard/reservation.h"

/* ---- entering and leaving ------------------------------------------------------------------- */

/* This poller answers. The last answer ends the visit. */
static void answer(struct guard *guard)
{
	struct loop *loop = guard->owner->client->loop;
	unsigned before = atomic_fetch_sub(&guard->n_pending, 1);

	check(before > 0);
	if (before == 1)
		loop_send(loop, &guard->msg);
}

static void set_blocked(struct guard_local *local, bool is_blocked)
{
	const struct guard *guard = local->guard;
	struct guard_client *client = guard->owner->client;

	if (local->is_blocked == is_blocked)
		return;
	local->is_blocked = is_blocked;
	client->ops->on_blocked(client, (unsigned)(local - guard->locals), is_blocked);
}

static void stop_waiting(struct guard *guard, struct guard_local *local)
{
	check(local->n_awaited > 0);
	if (--local->n_awaited)
		return;
	set_blocked(local, false);
	answer(guard);
}

void pass_init(struct pass *pass, struct guard_client *client, bool is_command)
{
	pass->client = client;
	pass->is_command = is_command;
	list_init(&pass->node);
	list_init(&pass->wait);
	list_init(&pass->aged_node);
}

void pass_begin(struct pass *pass, struct guard *guard)
{
	check(!pass->guard);
	pass->guard = guard;
	pass->local = &guard->locals[pass->client->poller];
	pass->slba = pass->n_blocks = 0;
	pass->access = ACCESS_NONE;
	pass->is_inside = pass->is_awaited = pass->is_aged = false;
}

void pass_show(struct pass *pass)
{
	if (pass->guard && list_is_empty(&pass->node))
		list_add_tail(&pass->local->passes, &pass->node);
}

/* A visit waits for it, or later writes do. */
static NOINLINE void end_awaited(struct pass *pass)
{
	if (pass->is_aged)
		guard_remove_aged(pass);
	if (!pass->is_awaited)
		return;
	pass->is_awaited = false;
	stop_waiting(pass->guard, pass->local);
}

void pass_leave(struct pass *pass)
{
	if (!pass->guard)
		return;
	pass->is_inside = false;
	if (UNLIKELY(pass->is_awaited | pass->is_aged))
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

void pass_abandon(struct pass *pass)
{
	struct guard *guard = pass->guard;
	bool is_owner;

	if (!guard || !pass->is_inside)
		return;
	pthread_mutex_lock(&guard->lock);
	is_owner = guard->owner == pass;
	pthread_mutex_unlock(&guard->lock);
	if (!is_owner)
		pass_end(pass);
}

void pass_move(struct pass *to, struct pass *from)
{
	if (!from->guard)
		return;
	check(!from->is_aged); /* it has data to send: no write has */
	memcpy((char *)to + offsetof(struct pass, guard),
	       (char *)from + offsetof(struct pass, guard),
	       sizeof(*to) - offsetof(struct pass, guard));
	if (!list_is_empty(&from->node))
		list_remove(&from->node);
	list_add_tail(&to->local->passes, &to->node);
	from->guard = NULL;
}

bool guard_has_bad(const struct guard *guard, uint64_t slba, uint64_t n_blocks)
{
	const struct bad_blocks *bad = atomic_load_explicit(&guard->bad_blocks,
							    memory_order_acquire);

	return bad && bad_blocks_overlap(bad, slba, n_blocks);
}

static bool is_reserved_for_others(const struct pass *pass)
{
	const struct reservation *reservation = atomic_load_explicit(&pass->guard->reservation,
								     memory_order_acquire);

	return !reservation_allows(reservation, pass->client->ops->hostid(pass->client),
				   pass->access);
}

enum nvme_status guard_check(const struct pass *pass)
{
	const struct guard *guard = pass->guard;
	unsigned flags = guard_flags(guard);

	if (flags & GUARD_RESERVED && is_reserved_for_others(pass))
		return NVME_RESERVATION_CONFLICT | NVME_DNR;
	if (flags & GUARD_PROTECTED && pass->access == ACCESS_WRITE)
		return NVME_NS_WRITE_PROTECTED | NVME_DNR;
	if (flags & GUARD_BAD_BLOCKS && pass->access == ACCESS_READ &&
	    guard_has_bad(guard, pass->slba, pass->n_blocks))
		return NVME_UNRECOVERED_READ | NVME_DNR;
	return NVME_OK;
}

enum guard_result guard_enter(struct pass *pass, enum nvme_status *ret_status)
{
	const struct guard *guard = pass->guard;
	struct guard_local *local = pass->local;
	enum nvme_status status = guard_check(pass);

	if (status != NVME_OK) {
		*ret_status = status;
		return GUARD_REFUSED;
	}
	if (local->is_closed && pass_overlaps(pass, guard->slba, guard->n_blocks)) {
		list_add_tail(&local->parked, &pass->wait);
		return GUARD_PARKED;
	}
	pass->is_inside = true;
	return GUARD_ENTERED;
}

/* ---- turns ---------------------------------------------------------------------------------- */

static void on_turn(struct loop_msg *msg)
{
	struct pass *owner = container_of(msg, struct guard, msg)->owner;

	owner->client->ops->on_turn(owner);
}

/* Caller holds the lock. */
static void give_turn(struct guard *guard)
{
	struct list *node = list_take_first(&guard->turns);

	guard->owner = node ? list_entry(node, struct pass, wait) : NULL;
	if (!node)
		return;
	guard->msg.run = on_turn;
	loop_send(guard->owner->client->loop, &guard->msg);
}

void guard_take_turn(struct pass *pass)
{
	struct guard *guard = pass->guard;

	check(list_is_empty(&pass->wait)); /* neither parked nor in line */
	pass_leave(pass);
	pthread_mutex_lock(&guard->lock);
	list_add_tail(&guard->turns, &pass->wait);
	if (!guard->owner)
		give_turn(guard);
	pthread_mutex_unlock(&guard->lock);
}

void guard_end_turn(struct pass *owner)
{
	struct guard *guard = owner->guard;

	check(guard->owner == owner);
	pthread_mutex_lock(&guard->lock);
	give_turn(guard);
	pthread_mutex_unlock(&guard->lock);
}

/* ---- visits --------------------------------------------------------------------------------- */

/* Ends the commands that the owner has marked and that wait for something. */
static void give_up_waiting(struct guard_local *local)
{
	bool has_ended;

	do {
		has_ended = false;
		list_for_each (node, &local->passes) {
			struct pass *pass = list_entry(node, struct pass, node);

			/* Its pass and that of its pair may have left the list: begin again. */
			if (pass->is_command && pass->client->ops->give_up(pass)) {
				has_ended = true;
				break;
			}
		}
	} while (has_ended);
}

static void on_visit(struct loop_msg *msg)
{
	struct guard_local *local = container_of(msg, struct guard_local, msg);
	struct guard *guard = local->guard;

	local->is_closed = guard->closes;
	local->n_awaited = 1; /* the visit itself */
	list_for_each (node, &local->passes) {
		struct pass *pass = list_entry(node, struct pass, node);

		if (!guard->visit(guard->owner, pass))
			continue;
		pass->is_awaited = true;
		local->n_awaited++;
	}
	give_up_waiting(local);
	if (local->n_awaited > 1)
		set_blocked(local, true);
	stop_waiting(guard, local);
}

/* Parked commands continue in their order; one that arrives later follows them. */
static void on_open(struct loop_msg *msg)
{
	struct guard_local *local = container_of(msg, struct guard_local, msg);
	struct list parked, *node;

	local->is_closed = false;
	list_init(&parked);
	list_splice_tail(&parked, &local->parked);
	while ((node = list_take_first(&parked))) {
		struct pass *pass = list_entry(node, struct pass, wait);

		pass->client->ops->on_free(pass);
	}
	answer(local->guard);
}

static void on_all_answered(struct loop_msg *msg)
{
	struct guard *guard = container_of(msg, struct guard, msg);

	guard->on_visited(guard->owner);
}

static void send_to_all(struct pass *owner, void (*run)(struct loop_msg *msg),
			guard_owner_fn *on_visited)
{
	struct guard *guard = owner->guard;
	struct guard_client *client = owner->client;
	unsigned n_pollers = client->ops->n_pollers(client);

	check(guard->owner == owner && n_pollers <= POLLERS_MAX);
	check(atomic_load(&guard->n_pending) == 0); /* the last visit is over */
	guard->msg.run = on_all_answered;
	guard->on_visited = on_visited;
	atomic_store(&guard->n_pending, n_pollers);
	for (unsigned i = 0; i < n_pollers; i++) {
		guard->locals[i].msg.run = run;
		loop_send(client->ops->loop_of(client, i), &guard->locals[i].msg);
	}
}

void guard_visit(struct pass *owner, guard_visit_fn *visit, guard_owner_fn *on_visited)
{
	struct guard *guard = owner->guard;

	guard->closes = false;
	guard->visit = visit;
	send_to_all(owner, on_visit, on_visited);
}

bool guard_visit_none(struct pass *owner, struct pass *pass)
{
	return false;
}

static bool is_in_the_way(struct pass *owner, struct pass *pass)
{
	const struct guard *guard = owner->guard;

	return pass->is_inside && pass_overlaps(pass, guard->slba, guard->n_blocks);
}

void guard_be_alone(struct pass *owner, guard_owner_fn *on_alone)
{
	struct guard *guard = owner->guard;

	guard->slba = owner->slba;
	guard->n_blocks = owner->n_blocks;
	guard->closes = true;
	guard->visit = is_in_the_way;
	send_to_all(owner, on_visit, on_alone);
}

void guard_open(struct pass *owner, guard_owner_fn *on_open_again)
{
	send_to_all(owner, on_open, on_open_again);
}
