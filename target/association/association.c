/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes the end of a connection to the rest of its association: to a Connect that the fence holds,
 * a turn at the worker threads, the controller, and Connects of others that wait for its writes.
 * connection.c knows none of these. Control thread, except on_drain.
 */
#include "target/association/association.h"
#include "target/association/auth/auth.h"
#include "target/association/auth/turn.h"
#include "target/association/connection.h"
#include "target/association/controller.h"
#include "target/association/cross_reset.h"
#include "target/association/fence.h"
#include "target/association/siblings.h"

/* The end of the admin queue ends the association. */
static void on_dying(struct connection *c, const char *why)
{
	fence_cancel(c);
	turn_cancel(c);
	if (!c->controller || c->queue->qid != 0)
		return;
	if (controller_state(c->controller) != CONTROLLER_DYING && target_is_serving(c->target))
		cross_reset_note_lost(c->controller);
	controller_kill(c->controller, why);
}

static void on_over(struct connection *c)
{
	controller_remove_connection(c);
	auth_release(c);
}

static void on_gone(struct target *target)
{
	if (target->n_stranded)
		siblings_update_all(target);
	fence_check(target);
	target->check_stop(target);
}

/* Poller. */
static void on_drain(struct queue *queue)
{
	if (queue->qid == 0 && queue->controller)
		controller_detach(queue->controller);
}

static const struct connection_events events = {
	.on_timeout = auth_on_timeout,
	.on_dying = on_dying,
	.on_over = on_over,
	.on_gone = on_gone,
	.on_drain = on_drain,
};

void association_accept(struct portal *portal, struct cm_conn *cm,
			const struct cm_queue_request *wish, unsigned max_reads)
{
	connection_open(portal, cm, wish, max_reads, &events);
}
