/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See cross_reset.h. struct cross_reset (engine/fencing.h) belongs to this thread from the question
 * of the source's poller until the answer, or until `over`.
 *
 * A host may reset its own controllers of its own subsystem and no others (V7): NQN and host
 * identifier must both agree. A controller that is in the registry no more is over: it leaves only
 * when its last queue is freed, and a queue is freed when the store has returned its last command.
 * So the answer is immediate then. An id outside of controller_ids may be of another rblkd, about
 * which this one knows nothing; and so may any id, if a store is shared and controller_ids is not
 * set.
 *
 * Most resets take milliseconds. The answer is held back that long, because a host that gets an
 * immediate success needs no event and no log page.
 *
 * Lifetime: an unanswered request keeps the source's admin queue alive. Afterwards `over` is sent
 * only to a source that is not dying: its `drain` is then sent later, and messages arrive in order.
 */
#include <string.h>

#include "base/clock.h"
#include "target/association/controller.h"
#include "target/association/cross_reset.h"
#include "target/command/admin/notice.h"

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
	return !strcmp(a->subnqn, b->subnqn) && !strcmp(a->hostnqn, b->hostnqn) &&
	       !memcmp(a->hostid, b->hostid, sizeof(a->hostid));
}

/* Of any subsystem and host: ids are unique. NULL: that controller is over. */
static struct controller *find(struct target *target, uint16_t id)
{
	list_for_each (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (controller->id == id)
			return controller;
	}
	return NULL;
}

/* No other rblkd gives this id. */
static bool is_ours(const struct cross_reset *reset)
{
	const struct target *target = reset->source->target;
	const struct config_controller_ids *ids = &target->config->controller_ids;
	const struct subsystem *subsystem = snapshot_find(atomic_load(&target->snapshot),
							  reset->source->subnqn);

	return reset->icid >= ids->min && reset->icid <= ids->max &&
	       (target->has_peers || !subsystem || !subsystem_is_shared(subsystem));
}

/* Another host, another instance, or not ours. */
static bool is_allowed(const struct cross_reset *reset, const struct controller *victim)
{
	if (!victim)
		return is_ours(reset);
	return is_same_host(victim, reset->source) &&
	       reset->ciu == atomic_load(&victim->fencing.ciu) && reset->cirn &&
	       reset->cirn == atomic_load(&victim->fencing.cirn);
}

static void on_question(struct loop_msg *msg)
{
	struct cross_reset *reset = container_of(msg, struct cross_reset, msg);
	struct target *target = reset->source->target;
	struct controller *victim = find(target, reset->icid);

	if (!is_allowed(reset, victim)) {
		answer(reset, NVME_INVALID_FIELD | NVME_DNR, false);
		return;
	}
	if (!victim) {
		answer(reset, NVME_OK, true);
		return;
	}
	if (!list_is_empty(&victim->fencing.watchers)) {
		answer(reset, NVME_CROSS_RESET_BUSY | NVME_DNR, false);
		return;
	}
	target->n_cross_resets++;
	reset->is_answered = false;
	reset->patience.on_expiry = on_patience;
	list_add_tail(&victim->fencing.watchers, &reset->node);
	loop_timer_start(&target->loop, &reset->patience, PATIENCE_MS * NSEC_PER_MSEC);
	controller_kill(victim, "Cross-Controller Reset");
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
