/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Draining; see drain.h. The I/O queues of an association finish first, because the end of the
 * admin queue ends all of it. Each freed queue calls drain_continue again, so this thread never
 * waits.
 *
 * Hosts keep the I/O that is not answered, and send it on another path if they have one. A host
 * with a discovery controller hears that the portal has left the log. It may flush what it wrote
 * here and leave, which it cannot once it is disconnected: a Flush by another controller is not for
 * those writes.
 */
#include "base/clock.h"
#include "target/association/connection.h"
#include "target/association/controller.h"
#include "target/command/admin/notice.h"
#include "target/operations/change/drain.h"

static bool follows_discovery(const struct controller *controller)
{
	list_for_each (node, &controller->target->controllers) {
		const struct controller *other = list_entry(node, struct controller, node);

		if (other->is_discovery && controller_state(other) == CONTROLLER_LIVE &&
		    controller_has_host_of(other, controller))
			return true;
	}
	return false;
}

static bool may_leave(const struct connection *c)
{
	return loop_timer_is_running(&c->portal->leave_timer) && c->controller &&
	       follows_discovery(c->controller);
}

static const char *why_drained(const struct connection *c)
{
	if (c->target->life >= TARGET_GIVING)
		return "rblkd is stopping";
	return portal_is_drained(c->portal) && !may_leave(c) ? "the portal is drained" : NULL;
}

/* Whether the admin queue must wait for I/O queues: they part with it. */
static bool waits_for_io(const struct connection *c)
{
	const struct controller *controller = c->controller;

	if (c->queue->qid != 0 || !controller || !atomic_load(&controller->n_io))
		return false;
	return c->target->life != TARGET_GIVING || !controller_is_leaving(controller);
}

void drain_continue(struct target *target)
{
	list_for_each_safe (node, &target->connections) {
		struct connection *c = list_entry(node, struct connection, node);
		const char *why = why_drained(c);

		if (!why || waits_for_io(c))
			continue;
		if (target->life == TARGET_GIVING)
			connection_part(c, why);
		else
			connection_finish(c, why);
	}
}

static void on_timeout(struct loop_timer *timer)
{
	struct portal *portal = container_of(timer, struct portal, drain_timer);

	list_for_each_safe (node, &portal->target->connections) {
		struct connection *c = list_entry(node, struct connection, node);

		if (c->portal == portal)
			connection_kill(c,
					"the portal is drained, and its commands did not finish");
	}
}

static void on_leave_over(struct loop_timer *timer)
{
	struct portal *portal = container_of(timer, struct portal, leave_timer);

	drain_continue(portal->target);
}

void portal_drain(struct portal *portal)
{
	struct target *target = portal->target;

	if (portal_is_drained(portal))
		return;
	log_info_about(LOG_ABOUT(.portal = portal->name), "portal %s: draining", portal->name);
	portal_close_drained(portal);
	portal->leave_timer.on_expiry = on_leave_over;
	portal->drain_timer.on_expiry = on_timeout;
	loop_timer_start(&target->loop, &portal->leave_timer, LEAVE_S * NSEC_PER_SEC);
	loop_timer_start(&target->loop, &portal->drain_timer, (LEAVE_S + DRAIN_S) * NSEC_PER_SEC);
	drain_continue(target);
}

int portal_undrain(struct portal *portal)
{
	if (!portal_is_drained(portal))
		return 0;
	portal_stop_drain(portal);
	return portal_reopen(portal);
}
