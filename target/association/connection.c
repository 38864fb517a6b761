/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See connection.h.
 *
 * Setup: control allocates all that the queue will ever need and creates the queue pair; the poller
 * posts receives; control accepts. Then the host must send Connect within the limit. (A capsule may
 * arrive before the CM reports "established": the poller handles it, and control notifies the CM.)
 *
 * Teardown begins in many places and is always the same: control moves the connection to DYING,
 * disconnects the peer and sends `drain`. When the queue is over, control destroys the queue pair,
 * the CM connection and the memory, in that order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/probe.h"
#include "base/states.h"
#include "target/association/admission.h"
#include "target/association/connection.h"
#include "target/association/defect.h"
#include "target/association/host_stats.h"
#include "target/engine/record/about.h"
#include "target/engine/record/capsules.h"
#include "target/engine/record/controller.h"
#include "target/engine/poller/poller_device.h"
#include "target/engine/poller/pollers.h"
#include "target/engine/record/portal.h"
#include "target/engine/queue/queue_control.h"
#include "target/engine/request/queue_create.h"
#include "transport/wire/rdma_cm.h"
#include "target/engine/request/response.h"
#include "transport/wire/strings.h"

enum {
	REFUSALS_BURST = 5,
};

#define TO(s) STATE_TO(CONNECTION_##s)

static const struct state_rule rules[] = {
	[CONNECTION_ATTACHING] = {"attaching", TO(CONNECTING) | TO(DYING)},
	[CONNECTION_CONNECTING] = {"connecting", TO(LIVE) | TO(DYING)},
	[CONNECTION_LIVE] = {"live", TO(FINISHING) | TO(PARTING) | TO(DYING)},
	[CONNECTION_FINISHING] = {"live", TO(DYING)},
	[CONNECTION_PARTING] = {"live", TO(PARTED) | TO(DYING)},
	[CONNECTION_PARTED] = {"live", TO(DYING)},
	[CONNECTION_DYING] = {"dying", TO(STRANDING) | TO(FREED)},
	[CONNECTION_STRANDING] = {"dying", TO(STRANDED) | TO(OVER)},
	[CONNECTION_OVER] = {"dying", TO(FREED)},
	[CONNECTION_STRANDED] = {"dying", TO(FREED)},
	[CONNECTION_FREED] = {"freed", 0},
};

const char *connection_state_name(const struct connection *c)
{
	return rules[c->state].name;
}

static void move_to(struct connection *c, enum connection_state next)
{
	states_move("connection", rules, &c->state, next);
}

/* Hosts cause these moves: one that the table forbids ends the connection, not the program. */
static bool try_move_to(struct connection *c, enum connection_state next)
{
	if (states_try(rules, &c->state, next))
		return true;
	connection_break(c, next == CONNECTION_LIVE ? "it may not become live in its state"
						    : "it may not be accepted in its state");
	return false;
}

void connection_set_live(struct connection *c)
{
	if (try_move_to(c, CONNECTION_LIVE))
		loop_timer_stop(&c->timer);
}

void connection_admit(struct connection *c, const char *hostnqn)
{
	check(!connection_is_admitted(c) && c->target->n_pending > 0);
	c->target->n_pending--;
	c->target->n_strangers -= c->from_stranger;
	host_stats_attach(c, hostnqn);
	admission_remember(c->target, &c->cm->remote);
}

/* ---- setup -------------------------------------------------------------------------------- */

void connection_refuse(struct cm_conn *cm, enum nvmf_cm_status status)
{
	struct nvmf_cm_rej rej = {.recfmt = put_le16(0), .sts = put_le16((uint16_t)status)};

	cm_reject(cm, &rej, sizeof(rej));
}

static void on_established(struct cm_conn *cm, const void *private_data, size_t n)
{
	/* Nothing to do: the queue pair could send and receive since it was accepted. */
}

static void lose_peer(struct connection *c, const char *why)
{
	if (c->peer == PEER_WAITS)
		c->peer = PEER_GONE;
	connection_kill(c, why);
}

static void on_failed_to_connect(struct cm_conn *cm, const struct cm_error *error)
{
	lose_peer(cm->context, "the host gave up connecting");
}

static void on_disconnected(struct cm_conn *cm)
{
	lose_peer(cm->context,
		  cm_removed_device(cm) ? "its RDMA device went away" : "the host disconnected");
}

static const struct cm_conn_ops cm_ops = {
	.on_established = on_established,
	.on_failed = on_failed_to_connect,
	.on_disconnected = on_disconnected,
};

static void on_timeout(struct loop_timer *timer)
{
	struct connection *c = container_of(timer, struct connection, timer);

	if (connection_is_live(c)) {
		c->events->on_timeout(c);
		return;
	}
	if (log_limit_pass(&c->target->refusals, REFUSALS_BURST))
		log_warn_about(LOG_ABOUT(.portal = c->portal->name),
			       "portal %s: %s connected but sent no Connect command in time",
			       c->portal->name, c->remote);
	connection_kill(c, "no Connect command in time");
}

static void on_attached(struct loop_msg *msg);
static void on_failed(struct loop_msg *msg);
static void on_broken(struct loop_msg *msg);
static void on_parted(struct loop_msg *msg);
static void on_over(struct loop_msg *msg);
static void on_abandoned(struct loop_msg *msg);

/* Its two ends, for captures. */
static void describe(struct queue *queue, const struct cm_conn *cm,
		     const struct cm_queue_request *wish)
{
	const struct nvmf_cm_req req = {
		.qid = put_le16(wish->qid),
		.hrqsize = put_le16((uint16_t)wish->n_rq),
		.hsqsize = put_le16((uint16_t)(wish->n_sq - 1)),
		.cntlid = put_le16(wish->cntlid),
	};
	const struct nvmf_cm_rep rep = {.crqsize = put_le16((uint16_t)queue->n_entries)};

	capture_stream_init(&queue->stream, &cm->remote, &cm->local);
	capture_stream_hello(&queue->stream.active, &req, sizeof(req));
	capture_stream_hello(&queue->stream.passive, &rep, sizeof(rep));
}

static struct queue *make_queue(struct connection *c, const struct cm_queue_request *wish)
{
	struct queue *queue = queue_create(pollers_choose(c->target), c->cm->device, wish->qid,
					   wish->n_sq);

	if (!queue)
		return NULL;
	queue->connection = c;
	queue->attached.msg.run = on_attached;
	queue->failed.msg.run = on_failed;
	queue->broken.msg.run = on_broken;
	queue->parted.run = on_parted;
	queue->over.run = on_over;
	queue->abandoned.run = on_abandoned;
	queue->on_drain = c->events->on_drain;
	describe(queue, c->cm, wish);
	queue_set_answer(queue, QUEUE_CAPTURED, capture_is_on(&queue->poller->capture));
	queue->capsules = capsules_take(c->target, queue->qid, c->remote);
	return queue;
}

static void connection_free(struct connection *c)
{
	if (c->queue)
		queue_destroy(c->queue);
	free(c);
}

static struct connection *connection_new(struct portal *portal, struct cm_conn *cm,
					 unsigned max_reads, const struct connection_events *events)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->target = portal->target;
	c->portal = portal;
	c->events = events;
	c->cm = cm;
	c->max_reads = max_reads;
	c->created_ns = clock_ns();
	c->from_stranger = admission_is_stranger(portal->target, &cm->remote);
	c->timer.on_expiry = on_timeout;
	c->connect.connection = c;
	addr_format(c->remote, &cm->remote);
	list_init(&c->node);
	list_init(&c->member_node);
	list_init(&c->connect.node);
	list_init(&c->proof.node);
	return c;
}

static int make(struct connection *c, const struct cm_queue_request *wish)
{
	c->queue = make_queue(c, wish);
	if (!c->queue || !c->queue->capsules)
		return -ENOMEM;
	return queue_make_qp(c->queue, c->cm->id, c->max_reads);
}

static void refuse_for_resources(struct portal *portal, struct cm_conn *cm, int r)
{
	if (log_limit_pass(&portal->target->refusals, REFUSALS_BURST))
		log_warn_about(LOG_ABOUT(.portal = portal->name),
			       "portal %s: cannot take another connection: %s", portal->name,
			       strerror(-r));
	connection_refuse(cm, NVMF_CM_NO_RESOURCES);
}

void connection_open(struct portal *portal, struct cm_conn *cm, const struct cm_queue_request *wish,
		     unsigned max_reads, const struct connection_events *events)
{
	struct target *target = portal->target;
	struct connection *c = connection_new(portal, cm, max_reads, events);
	int r = c ? make(c, wish) : -ENOMEM;

	if (r < 0) {
		if (c)
			connection_free(c);
		refuse_for_resources(portal, cm, r);
		return;
	}
	cm->ops = &cm_ops;
	cm->context = c;
	list_add_tail(&target->connections, &c->node);
	target->n_connections++;
	target->n_pending++;
	target->n_strangers += c->from_stranger;
	c->queue->poller->n_queues++;
	pollers_take_queue(target, cm->device);
	queue_attach(c->queue);
}

static void on_attached(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, attached.msg);
	struct connection *c = queue->connection;
	struct nvmf_cm_rep rep = {.recfmt = put_le16(0),
				  .crqsize = put_le16((uint16_t)queue->n_entries)};

	if (connection_is_dying(c))
		return;
	if (queue->attached.error < 0) {
		connection_kill(c, "its receives cannot be posted");
		return;
	}
	if (!try_move_to(c, CONNECTION_CONNECTING))
		return;
	check(c->peer == PEER_WAITS);
	loop_timer_start(&c->target->loop, &c->timer, c->target->config->limits.connect_timeout_ns);
	c->peer = PEER_ACCEPTED;
	if (cm_accept(c->cm, &rep, sizeof(rep), c->max_reads) < 0)
		connection_kill(c, "it cannot be accepted");
}

/* ---- teardown ----------------------------------------------------------------------------- */

void connection_kill(struct connection *c, const char *why)
{
	if (connection_is_dying(c))
		return;
	move_to(c, CONNECTION_DYING);
	PROBE(rblkd, queue_ended, c->queue, c->queue->qid, why);
	loop_timer_stop(&c->timer);
	if (c->peer == PEER_ACCEPTED)
		cm_disconnect(c->cm);
	queue_drain(c->queue);
	c->events->on_dying(c, why);
}

void connection_finish(struct connection *c, const char *why)
{
	if (!connection_is_live(c)) {
		connection_kill(c, why);
		return;
	}
	if (c->state != CONNECTION_LIVE)
		return;
	move_to(c, CONNECTION_FINISHING);
	queue_finish(c->queue, why);
}

void connection_part(struct connection *c, const char *why)
{
	if (c->state != CONNECTION_LIVE ||
	    (c->queue->qid && !controller_is_leaving(c->controller))) {
		connection_finish(c, why);
		return;
	}
	move_to(c, CONNECTION_PARTING);
	queue_part(c->queue);
}

static void on_parted(struct loop_msg *msg)
{
	struct connection *c = container_of(msg, struct queue, parted)->connection;

	if (c->state != CONNECTION_PARTING)
		return; /* it dies */
	move_to(c, CONNECTION_PARTED);
	c->events->on_gone(c->target);
}

bool connections_are_over(const struct target *target)
{
	list_for_each (node, &target->connections) {
		const struct connection *c = list_entry(node, struct connection, node);

		if (c->state != CONNECTION_PARTED && c->state != CONNECTION_STRANDED)
			return false;
	}
	return true;
}

/* A wrong key or a broken protocol may be an attack: it is logged even if the host stays. */
static void log_fault(struct connection *c)
{
	const struct controller *controller = c->controller;

	if (!log_limit_pass(&c->target->refusals, REFUSALS_BURST))
		return;
	if (controller)
		log_warn_about(CONTROLLER_ABOUT(controller),
			       "host %s: queue %u of controller %u: %s",
			       hostnqn_label(controller->hostnqn), c->queue->qid, controller->id,
			       c->queue->failed.why);
	else
		log_warn_about(LOG_ABOUT(.portal = c->portal->name), "portal %s: %s: %s",
			       c->portal->name, c->remote, c->queue->failed.why);
}

static void on_failed(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, failed.msg);
	struct connection *c = queue->connection;

	if (queue->failed.is_fault && !connection_is_dying(c)) {
		/* For an admin queue, the line about the end of the association has the reason. */
		if (queue->qid != 0 || !c->controller ||
		    controller_state(c->controller) == CONTROLLER_UNPROVEN)
			log_fault(c);
		capsules_log(queue->capsules, &c->target->fault_capsules);
	}
	connection_kill(c, queue->failed.why);
}

/* ---- defects ------------------------------------------------------------------------------- */

/* The poller has not returned the queue in time. */
static void on_strand(struct loop_timer *timer)
{
	struct connection *c = container_of(timer, struct connection, timer);

	move_to(c, CONNECTION_STRANDING);
	queue_abandon(c->queue);
}

static void end_broken(struct connection *c, const char *what)
{
	defect_log(c, what);
	connection_kill(c, "a defect of rblkd");
	if (c->state != CONNECTION_DYING)
		return; /* already stranded */
	c->timer.on_expiry = on_strand;
	loop_timer_start(&c->target->loop, &c->timer, DEFECT_WAIT_S * NSEC_PER_SEC);
}

void connection_break(struct connection *c, const char *what)
{
	if (!connection_is_dying(c)) /* else its poller may be about to send the same */
		end_broken(c, what);
}

static void on_broken(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, broken.msg);

	end_broken(queue->connection, queue->broken.what);
}

/* ---- over ---------------------------------------------------------------------------------- */

static void end(struct connection *c)
{
	struct queue *queue = c->queue;
	const struct connection_events *events = c->events;
	const struct device *device = queue->pd->device;
	struct target *target = c->target;

	check(queue == c->queue && target->n_connections > 0 && queue->poller->n_queues > 0);
	check(connection_is_admitted(c) || target->n_pending > 0);
	check(c->state != CONNECTION_STRANDED || target->n_stranded > 0);
	loop_timer_stop(&c->timer);
	target->n_stranded -= c->state == CONNECTION_STRANDED;
	move_to(c, CONNECTION_FREED);
	qp_deinit(&queue->qp);
	if (c->peer == PEER_WAITS)
		connection_refuse(c->cm, NVMF_CM_NO_RESOURCES);
	else
		cm_conn_destroy(c->cm);
	list_remove(&c->node);
	target->n_connections--;
	target->n_pending -= !connection_is_admitted(c);
	target->n_strangers -= !connection_is_admitted(c) && c->from_stranger;
	queue->poller->n_queues--;
	events->on_over(c);
	host_stats_detach(c);
	connection_free(c);
	pollers_give_queue(target, device);
	events->on_gone(target);
}

static void on_over(struct loop_msg *msg)
{
	struct connection *c = container_of(msg, struct queue, over)->connection;

	if (c->state == CONNECTION_STRANDING)
		move_to(c, CONNECTION_OVER);
	else
		end(c);
}

static void on_abandoned(struct loop_msg *msg)
{
	struct queue *queue = container_of(msg, struct queue, abandoned);
	struct connection *c = queue->connection;

	if (c->state == CONNECTION_OVER) {
		end(c);
		return;
	}
	move_to(c, CONNECTION_STRANDED);
	c->target->n_stranded++;
	defect_log_stranded(c);
	c->events->on_gone(c->target);
}
