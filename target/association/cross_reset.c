/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See cross_reset.h. struct cross_reset (engine/record/fencing.h) belongs to this thread from the
 * question of the source's poller until the answer, or until `over`.
 *
 * A host may reset its own controllers of its own subsystem and no others (V7): NQN and host
 * identifier must both agree. The instance number tells which process made the controller
 * (engine/record/incarnation.h), and what is known of it depends on that:
 *
 *   this process        not in the registry: over. A controller leaves it only when its last queue
 *                       is freed, and a queue is freed when the store has returned its last command
 *   another process of  over, if this one has the lock of each store: the kernel gives a lock away
 *   this machine        only when the I/O of its last holder is over. Pending, if this one stands
 *                       by for them: over when it becomes the owner. Otherwise unknown
 *   a process of        over, if this one is the owner of each store by a lock that other machines
 *   another machine     obey, too: the holder before has released it after its last I/O, or was
 *                       fenced before it was broken (store/rbd/stand.c). Otherwise unknown: it may
 *                       be alive, with a write on its way to the same store
 *
 * Unknown is answered as a refusal. The host then waits by time, or for that target.
 *
 * Most resets take milliseconds. The answer is held back that long, because a host that gets an
 * immediate success needs no event and no log page.
 *
 * Lifetime: an unanswered request keeps the source's admin queue alive. Afterwards `over` is sent
 * only to a source that is not dying: its `drain` is then sent later, and messages arrive in order.
 */
#include <string.h>

#include "base/clock.h"
#include "target/association/connection_impl.h"
#include "target/association/controller.h"
#include "target/association/cross_reset.h"
#include "target/command/admin/notice.h"
#include "target/export/ana.h"
#include "target/store/standby.h"

enum {
	PATIENCE_MS = 100,
};

static void answer(struct cross_reset *reset, enum nvme_status status, bool is_immediate)
{
	reset->is_answered = true;
	reset->status = status;
	reset->is_immediate = is_immediate;
	reset->msg.run = reset->on_answer;
	loop_send(&reset->source->poller->loop, &reset->msg);
}

static void on_patience(struct loop_timer *timer)
{
	answer(container_of(timer, struct cross_reset, patience), NVME_OK, false);
}

static bool is_same_host(const struct controller *a, const struct controller *b)
{
	return !strcmp(a->subnqn, b->subnqn) && controller_has_host_of(a, b);
}

/* Finds it in any subsystem, of any host: ids are unique. NULL: that controller is over. */
static struct controller *find(struct target *target, uint16_t id)
{
	list_for_each (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (controller->id == id)
			return controller;
	}
	return NULL;
}

/* The instance that the host names, and its own. */
static bool is_meant(const struct cross_reset *reset, const struct controller *victim)
{
	return is_same_host(victim, reset->source) &&
	       reset->ciu == atomic_load(&victim->fencing.ciu) &&
	       reset->cirn == atomic_load(&victim->fencing.cirn);
}

/* An earlier process of this machine had the stores, and this one has them alone. */
static bool has_all_locks(const struct cross_reset *reset)
{
	const struct snapshot *snapshot = atomic_load(&reset->source->target->snapshot);
	const struct subsystem *subsystem = snapshot_find(snapshot, reset->source->subnqn);

	return subsystem && subsystem_others(subsystem) != OTHERS_ANY;
}

/* A process of another machine had the stores, and gave them up or was fenced. */
static bool has_all_locks_everywhere(const struct cross_reset *reset)
{
	const struct snapshot *snapshot = atomic_load(&reset->source->target->snapshot);
	const struct subsystem *subsystem = snapshot_find(snapshot, reset->source->subnqn);

	return subsystem && ana_has_owners(subsystem) && subsystem_others(subsystem) == OTHERS_NONE;
}

/* This process may get the locks that it does not have. */
static bool stands_by(const struct cross_reset *reset)
{
	const struct snapshot *snapshot = atomic_load(&reset->source->target->snapshot);
	const struct subsystem *subsystem = snapshot_find(snapshot, reset->source->subnqn);

	for (unsigned i = 0; subsystem && i < subsystem->n_namespaces; i++)
		if (backend_stands_by(subsystem->namespaces[i]->backend))
			return true;
	return false;
}

/* In a list of those that wait for the same. */
static void wait_in(struct cross_reset *reset, struct list *waiting)
{
	struct target *target = reset->source->target;

	target->n_cross_resets++;
	reset->is_answered = false;
	reset->patience.on_expiry = on_patience;
	list_add_tail(waiting, &reset->node);
	loop_timer_start(&target->loop, &reset->patience, PATIENCE_MS * NSEC_PER_MSEC);
}

static void begin(struct cross_reset *reset, struct controller *victim)
{
	wait_in(reset, &victim->fencing.watchers);
	controller_kill(victim, "Cross-Controller Reset");
}

/* The number says that this process made the controller. */
static void reset_own(struct cross_reset *reset)
{
	struct target *target = reset->source->target;
	const struct config_controller_ids *ids = &target->config->controller_ids;
	struct controller *victim = find(target, reset->icid);
	bool is_possible = reset->icid >= ids->min && reset->icid <= ids->max;

	if (!victim && is_possible)
		answer(reset, NVME_OK, true);
	else if (!victim || !is_meant(reset, victim))
		answer(reset, NVME_INVALID_FIELD | NVME_DNR, false);
	else if (!list_is_empty(&victim->fencing.watchers))
		answer(reset, NVME_CROSS_RESET_BUSY | NVME_DNR, false);
	else
		begin(reset, victim);
}

static void on_question(struct loop_msg *msg)
{
	struct cross_reset *reset = container_of(msg, struct cross_reset, msg);
	const struct incarnation *own = &reset->source->target->incarnation;

	switch (incarnation_maker_of(own, reset->cirn)) {
	case MADE_HERE:
		reset_own(reset);
		return;
	case MADE_ON_MACHINE:
		if (has_all_locks(reset)) {
			answer(reset, NVME_OK, true);
			return;
		}
		if (stands_by(reset)) {
			wait_in(reset, &reset->source->target->resets_for_locks);
			return;
		}
		break;
	case MADE_ELSEWHERE:
		if (reset->cirn && has_all_locks_everywhere(reset)) {
			answer(reset, NVME_OK, true);
			return;
		}
		break;
	}
	answer(reset, NVME_INVALID_FIELD | NVME_DNR, false);
}

void cross_reset_init(struct controller *controller)
{
	list_init(&controller->fencing.watchers);
	controller->fencing.on_cross_reset = on_question;
	for (unsigned i = 0; i < CROSS_RESET_ENTRIES; i++)
		list_init(&controller->fencing.resets[i].node);
}

static void end_watch(struct cross_reset *reset)
{
	loop_timer_stop(&reset->patience);
	if (!reset->is_answered)
		answer(reset, NVME_OK, true);
	else if (controller_state(reset->source) != CONTROLLER_DYING)
		loop_send(&reset->source->poller->loop, &reset->over);
}

void cross_reset_note_locks(struct target *target)
{
	list_for_each_safe (node, &target->resets_for_locks) {
		struct cross_reset *reset = list_entry(node, struct cross_reset, node);

		if (!has_all_locks(reset))
			continue;
		list_remove(node);
		end_watch(reset);
	}
}

void cross_reset_end(struct controller *controller)
{
	struct list *node;

	while ((node = list_take_first(&controller->fencing.watchers)))
		end_watch(list_entry(node, struct cross_reset, node));
	for (unsigned i = 0; i < CROSS_RESET_ENTRIES; i++) {
		struct cross_reset *reset = &controller->fencing.resets[i];

		loop_timer_stop(&reset->patience);
		list_remove(&reset->node);
	}
}

/* ---- lost hosts ----------------------------------------------------------------------------- */

static uint64_t lost_key(const struct controller *controller)
{
	return (uint64_t)controller->id << LOST_HOST_ID_SHIFT |
	       (uint64_t)atomic_load(&controller->fencing.ciu) << LOST_HOST_CIU_SHIFT;
}

/* The host may be reading, and removing, at the same time. */
static void add_lost(struct controller *controller, uint64_t key)
{
	for (unsigned i = 0; i < LOST_HOST_ENTRIES; i++) {
		uint64_t none = 0;

		if (atomic_compare_exchange_strong(&controller->fencing.lost[i], &none, key | 1)) {
			notice_lost_host(controller);
			return;
		}
	}
	/* A host that reads none of them is not helped by more. */
}

void cross_reset_note_lost(const struct controller *controller)
{
	if (!atomic_load(&controller->is_ready) || controller->is_discovery)
		return;
	list_for_each (node, &controller->target->controllers) {
		struct controller *other = list_entry(node, struct controller, node);

		if (other != controller && is_same_host(other, controller) &&
		    controller_state(other) == CONTROLLER_LIVE)
			add_lost(other, lost_key(controller));
	}
}
