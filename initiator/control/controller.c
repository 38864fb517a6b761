/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of one association; the drawing is in controller.h. Control loop only.
 *
 * Happy path, top to bottom in this file: resolve the address, make the admin queue,
 * connect (CM), Connect command, read CAP, disable, enable and wait for ready, identify
 * the controller, ask for queues, ask for events, identify the namespace, live. Each
 * state has one function that starts its work, and one that takes the outcome and goes
 * on.
 *
 * Failures: every one fills c->error and ends in controller_fail, which calls on_down
 * once. Nothing is tried twice here. The owner then calls controller_stop: disconnect,
 * drain the queue pair, undo everything, on_stopped.
 *
 * Invariants: conn exists in every state but IDLE and, for a moment, RESOLVING; the admin
 * queue from CONNECTING to STOPPING; the domain from CONNECTING until the owner closes
 * it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/states.h"
#include "initiator/control/ana_log.h"
#include "initiator/control/async_event.h"
#include "initiator/control/controller_auth.h"
#include "initiator/control/controller_command.h"
#include "initiator/control/controller_setup.h"
#include "initiator/control/keep_alive.h"
#include "initiator/control/proof_ask.h"
#include "initiator/io/connect.h"
#include "initiator/control/controller.h"
#include "initiator/control/controller_impl.h"
#include "initiator/control/errors.h"

enum {
	RESOLVE_MS = 3000,
};
#define CONNECT_TIMEOUT_NS (10 * NSEC_PER_SEC)

static const struct state_rule reaches[] = {
	[REACH_NONE] = {"none", STATE_TO(REACH_ADMIN)},
	[REACH_ADMIN] = {"admin queue", STATE_TO(REACH_PEER) | STATE_TO(REACH_NONE)},
	[REACH_PEER] = {"peer", STATE_TO(REACH_NONE)},
};

static void set_reach(struct controller *c, enum controller_reach next)
{
	states_move("controller's reach", reaches, &c->reach, next);
}

/* ---- going down ---- */

static void report_down(struct loop_call *call)
{
	struct controller *c = container_of(call, struct controller, down_call);

	c->ops->on_down(c);
}

static void finish_stop(struct controller *c)
{
	cm_conn_destroy(c->conn);
	c->conn = NULL;
	controller_move(c, CTRL_IDLE);
	c->ops->on_stopped(c);
}

static void on_admin_stopped(struct admin *admin)
{
	finish_stop(admin->context);
}

static void report_stopped(struct loop_call *call)
{
	finish_stop(container_of(call, struct controller, stopped_call));
}

void controller_stop(struct controller *c)
{
	check(c->state != CTRL_IDLE);
	if (c->state == CTRL_STOPPING)
		return;
	loop_call_cancel(&c->down_call);
	loop_timer_stop(&c->timer);
	host_keep_alive_stop(c);
	async_event_stop(c);
	if (c->reach == REACH_PEER)
		cm_disconnect(c->conn);
	if (c->reach != REACH_NONE)
		admin_stop(&c->admin);
	else
		loop_defer(c->loop, &c->stopped_call);
	controller_move(c, CTRL_STOPPING);
}

void controller_shut_down(struct controller *c)
{
	if (c->state == CTRL_LIVE)
		controller_send_shut_down(c, controller_stop);
	else
		controller_stop(c);
}

/*
 * A Connect command can get lost without a fault of either side: the accepting side of siw does not
 * see data that arrives before it has finished accepting. The first attempt of a volume therefore
 * sends it once more; not more often, because a target may well hang.
 */
bool controller_may_ask_again(struct controller *c)
{
	if (c->cause != CAUSE_UNANSWERED || c->has_asked_again)
		return false;
	c->has_asked_again = true;
	log_info("%s; trying once more", c->error.message);
	return true;
}

void controller_close_domain(struct controller *c)
{
	check(c->state == CTRL_IDLE);
	domain_close(&c->domain);
	c->domain = (struct domain){0};
	controller_release_keys(c);
}

/* ---- RESOLVING, CONNECTING ---- */

static void on_admin_failed(struct admin *admin, bool is_timeout, const char *reason)
{
	controller_fail_connection(admin->context, is_timeout, reason);
}

static void on_deadline(struct loop_timer *timer)
{
	struct controller *c = container_of(timer, struct controller, timer);

	error_from_cm(&c->error, &c->config->address,
		      &(struct cm_error){.failure = CM_UNREACHABLE});
	controller_fail(c);
}

static void fill_private(struct nvmf_cm_req *ret_req)
{
	connect_fill_private(ret_req, 0, NVMF_ADMIN_SQ_ENTRIES, NVMF_ADMIN_SQ_ENTRIES, 0);
}

static void connect_admin(struct controller *c)
{
	struct nvmf_cm_req req;
	int r;

	controller_move(c, CTRL_CONNECTING);
	r = domain_open(c->conn->device, &c->domain);
	if (r < 0) {
		error_set(&c->error, EXIT_FAILED, NULL, "%s: cannot make a protection domain: %s",
			  c->conn->device->name, strerror(-r));
		controller_fail(c);
		return;
	}
	if (admin_start(&c->admin, c->conn, &c->domain, &c->error) < 0) {
		controller_fail(c);
		return;
	}
	set_reach(c, REACH_ADMIN);
	fill_private(&req);
	r = cm_connect(c->conn, &req, sizeof(req), c->conn->device->limits.max_rd_atom);
	if (r < 0) {
		error_from_cm(&c->error, &c->config->address,
			      &(struct cm_error){.failure = CM_CONNECT, .error = r});
		controller_fail(c);
	}
}

static void on_resolved(struct cm_conn *conn)
{
	struct controller *c = conn->context;

	if (c->state == CTRL_RESOLVING)
		connect_admin(c);
}

static void on_established(struct cm_conn *conn, const void *private_data, size_t n)
{
	struct controller *c = conn->context;
	struct nvmf_cm_req req;

	set_reach(c, REACH_PEER);
	if (c->state != CTRL_CONNECTING)
		return;
	fill_private(&req);
	connect_describe(&c->admin.stream, &conn->local, &conn->remote, &req, private_data, n);
	loop_timer_stop(&c->timer);
	if (connect_parse_private(private_data, n, &c->n_admin_recv) < 0) {
		controller_fail_connection(c, false, "its private data has an unknown format");
		return;
	}
	controller_send_connect(c);
}

static void on_cm_failed(struct cm_conn *conn, const struct cm_error *error)
{
	struct controller *c = conn->context;

	if (!controller_is_up(c))
		return;
	c->cause = error_cm_is_transient(error) ? CAUSE_TRANSIENT : CAUSE_OTHER;
	error_from_cm(&c->error, &c->config->address, error);
	controller_fail(c);
}

static void on_disconnected(struct cm_conn *conn)
{
	controller_fail_connection(conn->context, false, error_of_disconnect(conn));
}

static const struct cm_conn_ops cm_ops = {
	.on_resolved = on_resolved,
	.on_established = on_established,
	.on_failed = on_cm_failed,
	.on_disconnected = on_disconnected,
};

void controller_start(struct controller *c)
{
	const union addr *source = &c->config->host_address;
	int r;

	check(c->state == CTRL_IDLE && !c->domain.pd);
	if (c->reach != REACH_NONE)
		set_reach(c, REACH_NONE);
	c->cause = CAUSE_OTHER;
	c->error = (struct error){0};
	c->ana_state = 0;
	controller_move(c, CTRL_RESOLVING);
	c->timer.on_expiry = on_deadline;
	loop_timer_start(c->loop, &c->timer, c->connect_timeout_ns);
	if (controller_load_keys(c) < 0) {
		controller_fail(c);
		return;
	}
	r = cm_resolve(c->cm, &c->config->address, source->sa.sa_family ? source : NULL, RESOLVE_MS,
		       &cm_ops, c, &c->conn);
	if (r < 0) {
		error_from_cm(&c->error, &c->config->address,
			      &(struct cm_error){.failure = CM_ADDRESS, .error = r});
		controller_fail(c);
	}
}

void controller_init(struct controller *c, struct loop *loop, struct cm *cm,
		     const struct volume_config *config, enum controller_kind kind,
		     const struct controller_ops *ops, void *context)
{
	*c = (struct controller){
		.loop = loop,
		.cm = cm,
		.config = config,
		.subnqn = kind == CONTROLLER_KIND_IO ? config->subnqn : NVMF_DISCOVERY_NQN,
		.kind = kind,
		.connect_timeout_ns = CONNECT_TIMEOUT_NS,
		.ops = ops,
		.context = context,
		.down_call = {.run = report_down},
		.stopped_call = {.run = report_stopped},
		.admin = {.loop = loop,
			  .capture = config->capture ?: &capture_none,
			  .on_failed = on_admin_failed,
			  .on_stopped = on_admin_stopped,
			  .context = c},
	};
}
