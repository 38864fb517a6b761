/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registry of controllers, on the control thread; and what happens on a controller's poller
 * when the admin queue connects or dies.
 *
 * The Connect of an admin queue creates a controller, which dies with that queue or when keep-alive
 * expires: all its queues are killed, and the last one to be freed frees it. I/O queues come and go
 * in between; the loss of one does not end the association (the host decides).
 *
 * Log: one line soon after Connect, when the I/O queues are there, and one at the end. Errors of
 * the host in between are logged at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/probe.h"
#include "base/random.h"
#include "base/states.h"
#include "base/ticks.h"
#include "target/association/controller.h"
#include "target/association/connection.h"
#include "target/command/admin/async_event.h"
#include "target/command/admin/event_page.h"
#include "target/command/admin/keep_alive.h"
#include "target/command/admin/property.h"
#include "target/engine/record/about.h"
#include "target/engine/record/command_table.h"
#include "target/engine/record/controller.h"
#include "target/engine/request/parse.h"
#include "target/export/health/health.h"
#include "target/association/cross_reset.h"
#include "target/association/host.h"
#include "target/association/member.h"
#include "target/association/siblings.h"
#include "target/engine/record/portal.h"
#include "transport/wire/strings.h"

enum {
	ANNOUNCE_MS = 1000, /* from Connect or proof of the admin queue to the line in the log */
	QUEUES_QUIET_MS = 200,
};

#define TO(s) STATE_TO(CONTROLLER_##s)

static const struct state_rule rules[] = {
	[CONTROLLER_UNPROVEN] = {"unproven", TO(LIVE) | TO(DYING)},
	[CONTROLLER_LIVE] = {"live", TO(RESETTING) | TO(DYING)},
	[CONTROLLER_RESETTING] = {"resetting", TO(LIVE) | TO(DYING)},
	[CONTROLLER_DYING] = {"dying", 0},
};

/* Only the control thread writes the state, so a copy of it can be moved. */
static bool try_move_to(struct controller *controller, enum controller_state next)
{
	enum controller_state state = atomic_load(&controller->state);

	if (!states_try(rules, &state, next))
		return false;
	atomic_store(&controller->state, state);
	return true;
}

static bool is_id_taken(struct target *target, uint16_t id)
{
	list_for_each (node, &target->controllers)
		if (list_entry(node, struct controller, node)->id == id)
			return true;
	return false;
}

/* Ids are given in a circle, so that none is reused soon. 0: all are in use. */
static uint16_t new_id(struct target *target)
{
	const struct config_controller_ids *ids = &target->config->controller_ids;

	for (uint64_t tries = ids->min; tries <= ids->max; tries++) {
		uint16_t next = (uint16_t)(target->last_cntlid + 1);

		if (target->last_cntlid < ids->min || target->last_cntlid >= ids->max)
			next = (uint16_t)ids->min;
		target->last_cntlid = next;
		if (!is_id_taken(target, next))
			return next;
	}
	return 0;
}

bool controller_has_host_of(const struct controller *a, const struct controller *b)
{
	return !strcmp(a->hostnqn, b->hostnqn) && !memcmp(a->hostid, b->hostid, sizeof(a->hostid));
}

struct controller *controller_find(struct target *target, const char *subnqn, uint16_t id)
{
	list_for_each (node, &target->controllers) {
		struct controller *controller = list_entry(node, struct controller, node);

		if (controller->id == id && !strcmp(controller->subnqn, subnqn))
			return controller;
	}
	return NULL;
}

/* ---- log ---------------------------------------------------------------------------------- */

static void announce(struct controller *controller)
{
	unsigned n_io = atomic_load(&controller->n_io);
	enum log_level level = controller->is_discovery ? LOG_DEBUG : LOG_INFO;

	if (controller->is_announced || controller_state(controller) == CONTROLLER_UNPROVEN)
		return;
	controller->is_announced = true;
	loop_timer_stop(&controller->announce);
	log_write_about(level, CONTROLLER_ABOUT(controller),
			"host %s: connected to %s from %s, controller %u, %u I/O queue%s",
			hostnqn_label(controller->hostnqn), controller->subnqn, controller->remote,
			controller->id, n_io, n_io == 1 ? "" : "s");
}

static void on_announce(struct loop_timer *timer)
{
	announce(container_of(timer, struct controller, announce));
}

/* Logs the connect line after that time without another call, unless it is logged already. */
static void announce_soon(struct controller *controller, uint64_t ms)
{
	if (!controller->is_announced)
		loop_timer_start(&controller->target->loop, &controller->announce,
				 ms * NSEC_PER_MSEC);
}

static void log_end(struct controller *controller, bool was_unproven, const char *why)
{
	enum log_level level = controller->is_discovery ? LOG_DEBUG : LOG_INFO;

	if (was_unproven) {
		/* It was never announced; a refusal or a fault has a line of its own. */
		log_debug("host %s: left %s, controller %u, without authentication: %s",
			  hostnqn_label(controller->hostnqn), controller->subnqn, controller->id,
			  why);
		return;
	}
	announce(controller);
	log_write_about(level, CONTROLLER_ABOUT(controller),
			"host %s: disconnected from %s, controller %u: %s",
			hostnqn_label(controller->hostnqn), controller->subnqn, controller->id,
			why);
}

/* ---- life --------------------------------------------------------------------------------- */

static struct health_record *health_of(struct target *target, const char *subnqn)
{
	const struct subsystem *subsystem = snapshot_find(atomic_load(&target->snapshot), subnqn);

	return subsystem ? subsystem->health : NULL;
}

static void on_reset(struct loop_msg *msg);

static struct queue *find_queue(const struct controller *controller, uint16_t qid)
{
	list_for_each (node, &controller->connections) {
		const struct connection *c = list_entry(node, struct connection, member_node);

		if (c->queue->qid == qid && connection_is_live(c))
			return c->queue;
	}
	return NULL;
}

/* The first instance has the next one. */
static unsigned random_ciu(void)
{
	uint8_t ciu;

	return random_bytes(&ciu, sizeof(ciu)) < 0 ? 0 : ciu;
}

struct controller *controller_new(struct connect_op *op)
{
	struct connection *c = op->connection;
	struct target *target = c->target;
	uint16_t id = new_id(target);
	struct controller *controller = id ? calloc(1, sizeof(*controller)) : NULL;

	if (!controller)
		return NULL;
	controller->is_discovery = snapshot_is_discovery(atomic_load(&target->snapshot),
							 op->subnqn);
	controller->host = controller->is_discovery ? host_take_guest(target, &c->cm->remote)
						    : host_take(target, op->hostnqn);
	if (!controller->host) {
		free(controller);
		return NULL;
	}
	controller->target = target;
	controller->id = id;
	memcpy(controller->subnqn, op->subnqn, sizeof(controller->subnqn));
	memcpy(controller->hostnqn, op->hostnqn, sizeof(controller->hostnqn));
	memcpy(controller->hostid, op->hostid, sizeof(controller->hostid));
	memcpy(controller->remote, c->remote, sizeof(controller->remote));
	controller->local = c->cm->local;
	controller->portal = c->portal;
	controller->poller = c->queue->poller;
	controller->health = health_of(target, op->subnqn);
	controller->created_ns = clock_ns();
	atomic_init(&controller->state, c->proof.session ? CONTROLLER_UNPROVEN : CONTROLLER_LIVE);
	controller->kato_ms = op->kato_ms;
	controller->announce.on_expiry = on_announce;
	controller->on_reset = on_reset;
	cross_reset_init(controller);
	atomic_init(&controller->fencing.ciu, random_ciu());
	controller->find_queue = find_queue;
	atomic_store(&controller->n_granted, (unsigned)target->config->tuning.io_queues);
	atomic_store(&controller->last_traffic, ticks_now());
	controller->fencing.note = ticks_from_ns(TRAFFIC_NOTE_MS * NSEC_PER_MSEC);
	pthread_mutex_init(&controller->errors_lock, NULL);
	list_init(&controller->connections);
	list_init(&controller->aers);
	list_add_tail(&target->controllers, &controller->node);
	announce_soon(controller, ANNOUNCE_MS);
	return controller;
}

void controller_admit(struct connection *c)
{
	struct controller *controller = c->controller;

	member_admit(c);
	if (c->queue->qid != 0)
		announce_soon(controller, QUEUES_QUIET_MS);
	else if (controller_state(controller) == CONTROLLER_UNPROVEN &&
		 try_move_to(controller, CONTROLLER_LIVE))
		announce_soon(controller, ANNOUNCE_MS);
}

void controller_add_connection(struct controller *controller, struct connection *c)
{
	struct queue *queue = c->queue;

	check(!c->controller && (queue->qid != 0 || !controller->admin));
	c->controller = controller;
	list_add_tail(&controller->connections, &c->member_node);
	if (queue->qid == 0) {
		controller->admin = c;
		PROBE(rblkd, association_begin, controller->id, &controller->hostnqn[0],
		      &controller->subnqn[0]);
	}
	connection_set_live(c);
	if (!c->proof.session)
		controller_admit(c);
	PROBE(rblkd, queue_connected, queue, queue->qid, controller->id, &c->remote[0]);
}

void controller_kill(struct controller *controller, const char *why)
{
	bool was_unproven = controller_state(controller) == CONTROLLER_UNPROVEN;

	if (!try_move_to(controller, CONTROLLER_DYING))
		return; /* it is dying already */
	controller->fencing.dying_ns = clock_ns();
	controller->fencing.was_serving = atomic_load(&controller->is_ready);
	/* From here on no queue starts any command: the fence. */
	atomic_store(&controller->is_ready, false);
	log_end(controller, was_unproven, why);
	PROBE(rblkd, association_end, controller->id, &controller->hostnqn[0], why);
	siblings_update(controller);
	list_for_each_safe (node, &controller->connections)
		connection_kill(list_entry(node, struct connection, member_node), why);
}

void controller_expire(struct controller *controller)
{
	if (controller_is_expired(controller, ticks_now()))
		controller_kill(controller, "nothing was heard of its host in time");
}

static void controller_free(struct controller *controller)
{
	/* Nothing of it may be left at its poller. */
	check(list_is_empty(&controller->connections) && !controller->admin_queue);
	check(!loop_timer_is_running(&controller->keep_alive));
	list_remove(&controller->node);
	loop_timer_stop(&controller->announce);
	siblings_update(controller);
	cross_reset_end(controller);
	event_page_release(controller);
	pthread_mutex_destroy(&controller->errors_lock);
	host_give(controller->host);
	free(controller);
}

unsigned controller_n_queues(const struct controller *controller)
{
	unsigned n = 0;

	list_for_each (node, &controller->connections) {
		n++;
	}
	return n;
}

static bool has_io_queues(const struct controller *controller)
{
	return controller_n_queues(controller) > (controller->admin ? 1 : 0);
}

/* All I/O queues are gone: notifies the poller, if the admin queue can still answer the host. */
static void end_reset(struct controller *controller)
{
	if (!try_move_to(controller, CONTROLLER_LIVE))
		return; /* it is dying */
	if (!controller->admin || !connection_is_live(controller->admin))
		return;
	controller->reset.run = property_reset_done;
	loop_send(&controller->poller->loop, &controller->reset);
}

static void on_reset(struct loop_msg *msg)
{
	struct controller *controller = container_of(msg, struct controller, reset);

	if (controller->health)
		health_note_reset(controller->health, controller->id);
	if (!try_move_to(controller, CONTROLLER_RESETTING))
		return; /* it is dying, and so are its queues */
	list_for_each_safe (node, &controller->connections) {
		struct connection *c = list_entry(node, struct connection, member_node);

		if (c->queue->qid != 0)
			connection_kill(c, "the host disabled the controller");
	}
	if (!has_io_queues(controller))
		end_reset(controller);
}

void controller_remove_connection(struct connection *c)
{
	struct controller *controller = c->controller;

	if (!controller)
		return;
	list_remove(&c->member_node);
	member_discount(c);
	if (c->queue->qid == 0)
		controller->admin = NULL;
	if (list_is_empty(&controller->connections))
		controller_free(controller);
	else if (controller_state(controller) == CONTROLLER_RESETTING && !has_io_queues(controller))
		end_reset(controller);
}

/* ---- poller of the admin queue ------------------------------------------------------------ */

void controller_attach(struct controller *controller, struct queue *admin_queue)
{
	check(!controller->admin_queue && admin_queue->qid == 0);
	controller->admin_queue = admin_queue;
	keep_alive_start(controller);
}

void controller_detach(struct controller *controller)
{
	keep_alive_stop(controller);
	async_event_end_all(controller, NVME_ABORTED_SQ_DELETION);
	controller->admin_queue = NULL;
}
